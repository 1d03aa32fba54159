"""The twin of the stream keeps the promises and has the faults of the real one."""

from random import Random

import pytest

from dragoman.ledger.memory_stream import PIECE, MemoryStream, StreamConnection, StreamFaults


@pytest.fixture
def stream() -> MemoryStream:
    return MemoryStream()


def test_a_message_is_stored_only_behind_the_expected_one(stream: MemoryStream) -> None:
    connection = StreamConnection(stream)
    assert connection.publish(b"a", "1", 0) == 1
    assert connection.publish(b"b", "2", 0) is None
    assert connection.publish(b"b", "2", 1) == 2
    assert [m.data for m in connection.follow(0)] == [b"a", b"b"]


def test_a_known_id_is_answered_with_its_sequence_before_the_place_is_checked(
    stream: MemoryStream,
) -> None:
    connection = StreamConnection(stream)
    connection.publish(b"a", "1", 0)
    connection.publish(b"b", "2", 1)
    assert connection.publish(b"a", "1", 0) == 1
    assert stream.last == 2


def test_a_large_message_is_stored_whole(stream: MemoryStream) -> None:
    connection = StreamConnection(stream)
    assert connection.publish(bytes(2 * PIECE + 1), "1", 0) == 3
    found = connection.read(1)
    assert found is not None
    assert (found.last, len(found.data)) == (3, 2 * PIECE + 1)
    assert connection.read(2) is None


def test_a_purge_removes_the_oldest_messages_only(stream: MemoryStream) -> None:
    connection = StreamConnection(stream)
    for number in range(3):
        connection.publish(b"%d" % number, str(number), number)
    connection.purge(3)
    assert (connection.first_sequence(), connection.last_sequence()) == (3, 3)
    assert [m.data for m in connection.follow(0)] == [b"2"]
    connection.purge(9)
    assert (connection.first_sequence(), connection.last_sequence()) == (4, 3)


def test_without_a_majority_nothing_is_stored(stream: MemoryStream) -> None:
    stream.servers = 1
    connection = StreamConnection(stream)
    with pytest.raises(TimeoutError):
        connection.publish(b"a", "1", 0)
    with pytest.raises(TimeoutError):
        connection.last_sequence()
    assert stream.last == 0


def test_a_connection_that_is_cut_or_closed_says_so(stream: MemoryStream) -> None:
    cut, closed = StreamConnection(stream), StreamConnection(stream)
    cut.is_cut = True
    closed.close()
    for connection in (cut, closed):
        with pytest.raises(ConnectionError):
            connection.follow(0)


@pytest.mark.parametrize(
    ("fault", "stored"), [("lost_request", 0), ("lost_answer", 1), ("late", 0)]
)
def test_each_fault_of_a_publish_leaves_the_sender_without_an_answer(
    stream: MemoryStream, fault: str, stored: int
) -> None:
    faults = StreamFaults(Random(1), **{fault: 1.0})
    with pytest.raises(TimeoutError):
        StreamConnection(stream, faults).publish(b"a", "1", 0)
    assert (stream.last, faults.count) == (stored, 1)


def test_late_messages_arrive_only_if_a_majority_runs(stream: MemoryStream) -> None:
    for number, servers in ((1, 1), (2, 2)):
        stream.late.append((b"a", str(number), 0))
        stream.servers = servers
        stream.deliver_late()
    assert [m.id for m in stream.messages] == ["2"]


def test_a_server_that_is_behind_knows_less(stream: MemoryStream) -> None:
    connection = StreamConnection(stream)
    for number in range(5):
        connection.publish(b"a", str(number), number)
    stale = StreamConnection(stream, StreamFaults(Random(1), stale=1.0))
    assert stale.last_sequence() < 5
    assert len(stale.follow(0)) < 5
    assert stale.read(5) is None
