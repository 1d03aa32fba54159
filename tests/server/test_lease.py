"""The lease: one holder, who stops before another can begin."""

import threading

import pytest

from dragoman.server.lease import TTL, Lease, LeaseHolder, LeaseKeeper, LeaseLost
from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket


class Hand:
    """A clock that the test moves; the servers have the same one."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Site:
    """A bucket, and nodes with a connection each."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.bucket = MemoryBucket(TTL, self.hand)
        self.loses_answers = False
        self.connections: list[BucketConnection] = []

    def lease(self, node: str) -> Lease:
        connection = BucketConnection(self.bucket, lambda: self.loses_answers)
        self.connections.append(connection)
        return Lease(connection, node, TTL, self.hand)


@pytest.fixture
def site() -> Site:
    return Site()


def test_one_node_has_the_lease(site: Site) -> None:
    a, b = site.lease("a"), site.lease("b")
    assert a.take(1)
    assert not b.take(1)
    assert (a.is_held, b.is_held) == (True, False)
    found = b.holder()
    assert found is not None
    assert (found.node, found.epoch, found.endpoints) == ("a", 1, {})


def test_the_holder_tells_where_it_is_reached(site: Site) -> None:
    a = site.lease("a")
    a.take(3)
    assert a.announce(3, {"nfp": "tcp://10.0.0.1:5555"})
    found = site.lease("b").holder()
    assert found is not None
    assert found.endpoints == {"nfp": "tcp://10.0.0.1:5555"}


def test_the_holder_stops_before_the_lease_ends(site: Site) -> None:
    a, b = site.lease("a"), site.lease("b")
    a.take(1)
    site.hand.now += 0.8 * TTL
    assert not a.is_held
    assert not b.take(2)
    site.hand.now += 0.2 * TTL
    assert b.take(2)
    with pytest.raises(LeaseLost, match="belongs to b"):
        a.renew()


def test_the_time_counts_from_before_the_renewal(site: Site) -> None:
    a = site.lease("a")
    a.take(1)
    bucket = site.connections[0]
    update = bucket.update

    def slow(key: str, value: bytes, revision: int) -> int | None:
        found = update(key, value, revision)
        site.hand.now += TTL
        return found

    bucket.update = slow  # type: ignore[method-assign]
    a.renew()
    assert not a.is_held


def test_a_renewal_without_an_answer_is_found_by_the_next(site: Site) -> None:
    a = site.lease("a")
    a.take(1)
    site.loses_answers = True
    assert a.renew()
    site.loses_answers = False
    site.hand.now += 0.1
    assert a.renew()
    site.hand.now += 0.7 * TTL
    assert a.is_held


def test_a_lease_taken_without_an_answer_is_not_held(site: Site) -> None:
    a, b = site.lease("a"), site.lease("b")
    site.loses_answers = True
    assert not a.take(1)
    assert not a.is_held
    site.loses_answers = False
    site.hand.now += TTL
    assert b.take(1)


def test_an_unreachable_holder_has_its_lease_to_the_end_and_no_longer(site: Site) -> None:
    a = site.lease("a")
    a.take(1)
    site.connections[0].is_cut = True
    assert a.renew()
    site.hand.now += 0.8 * TTL
    assert not a.renew()


def test_a_released_lease_is_free_at_once(site: Site) -> None:
    a, b = site.lease("a"), site.lease("b")
    a.take(1)
    a.release()
    assert not a.is_held
    assert b.take(2)
    a.release()
    assert b.renew()


def test_a_damaged_lease_belongs_to_nobody_known(site: Site) -> None:
    site.bucket.create("leader", b"no JSON")
    assert site.lease("a").holder() == LeaseHolder("?", 0, {})


def test_a_keeper_announces_and_releases(site: Site) -> None:
    a, b = site.lease("a"), site.lease("b")
    a.take(1)
    keeper = LeaseKeeper(a, 1, lambda why: None)
    keeper.announce({"nfp": "tcp://10.0.0.1:5555"})
    while not (found := b.holder()) or not found.endpoints:
        threading.Event().wait(0.01)
    keeper.stop()
    assert b.holder() is None


def test_a_keeper_says_once_why_the_lease_is_lost(site: Site) -> None:
    a, b = site.lease("a"), site.lease("b")
    a.take(1)
    lost: list[str] = []
    is_lost = threading.Event()

    def on_lost(why: str) -> None:
        lost.append(why)
        is_lost.set()

    site.hand.now += TTL
    b.take(2)
    keeper = LeaseKeeper(a, 1, on_lost)
    assert is_lost.wait(10.0)
    keeper.stop()
    assert lost == ["the lease belongs to b"]
    assert b.renew()
