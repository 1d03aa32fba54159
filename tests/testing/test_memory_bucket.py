"""The twin of a bucket: revisions, time to live, a cut connection."""

import pytest

from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket


class Hand:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def bucket(hand: Hand) -> MemoryBucket:
    return MemoryBucket(2.0, hand)


def test_a_key_is_created_once_and_replaced_by_revision(bucket: MemoryBucket) -> None:
    assert bucket.create("k", b"a") == 1
    assert bucket.create("k", b"b") is None
    assert bucket.update("k", b"b", 1) == 2
    assert bucket.update("k", b"c", 1) is None
    assert bucket.get("k") == (b"b", 2)
    assert not bucket.delete("k", 1)
    assert bucket.delete("k", 2)
    assert bucket.get("k") is None


def test_a_key_ends_unless_it_is_renewed(bucket: MemoryBucket, hand: Hand) -> None:
    bucket.create("k", b"a")
    hand.now = 1.9
    bucket.update("k", b"a", 1)
    hand.now = 3.8
    assert bucket.get("k") is not None
    hand.now = 3.9
    assert bucket.get("k") is None
    assert bucket.update("k", b"a", 2) is None
    assert bucket.create("k", b"b") == 3


def test_a_lost_answer_leaves_what_was_written(bucket: MemoryBucket) -> None:
    with pytest.raises(TimeoutError):
        BucketConnection(bucket, lambda: True).create("k", b"a")
    assert bucket.get("k") == (b"a", 1)


def test_a_cut_connection_writes_nothing(bucket: MemoryBucket) -> None:
    connection = BucketConnection(bucket)
    connection.is_cut = True
    with pytest.raises(ConnectionError):
        connection.create("k", b"a")
    assert bucket.get("k") is None
