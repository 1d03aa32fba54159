"""A stream on three real servers: places, ids, pieces, and a server that dies."""

import time
from contextlib import suppress
from uuid import uuid4

import pytest
from tests.nats_trio import NatsTrio
from tests.transports.jetstream_servers import connection as connection
from tests.transports.jetstream_servers import servers as servers

from dragoman.ledger.base import Fenced
from dragoman.ledger.publication import Publication
from dragoman.transports.jetstream import PIECE, JetStream, JetStreamMessage
from dragoman.transports.jetstream_connection import JetStreamConnection

pytestmark = pytest.mark.interop


@pytest.fixture
def stream(connection: JetStreamConnection) -> JetStream:
    name = uuid4().hex
    return JetStream.open(connection, name, f"ledger.{name}", 3)


def until_stored(publication: Publication, stream: JetStream) -> int:
    until = time.monotonic() + 40.0
    while (found := publication.attempt(stream)) is None:
        assert time.monotonic() < until, "still in doubt"
        time.sleep(0.05)  # without a leader the servers refuse at once
    return found


def until_followed(stream: JetStream, count: int) -> list[bytes]:
    """Follow as a standby does: again, if the consumer was placed on the server that died."""
    found: list[JetStreamMessage] = []
    until = time.monotonic() + 40.0
    while len(found) < count:
        assert time.monotonic() < until, f"only {len(found)} came"
        with suppress(ConnectionError):
            found += stream.follow(found[-1].last if found else 0, 5.0)
    return [each.data for each in found]


def test_a_new_stream_is_empty(stream: JetStream) -> None:
    assert (stream.first_sequence(), stream.last_sequence()) == (1, 0)
    assert stream.read(1) is None
    assert stream.follow(0, 0.0) == []


def test_a_message_is_stored_only_behind_the_expected_one(stream: JetStream) -> None:
    assert stream.publish(b"a", "1", 0) == 1
    assert stream.publish(b"b", "2", 0) is None
    assert stream.publish(b"b", "2", 1) == 2
    assert [(m.first, m.id, m.data) for m in stream.follow(0, 5.0)] == [
        (1, "1", b"a"),
        (2, "2", b"b"),
    ]


def test_the_same_message_is_stored_once(stream: JetStream) -> None:
    small, large = Publication(b"a", 0), Publication(bytes(2 * PIECE + 5), 1)
    assert [small.attempt(stream), small.attempt(stream)] == [1, 1]
    assert [large.attempt(stream), large.attempt(stream)] == [4, 4]
    assert stream.last_sequence() == 4


def test_a_large_message_is_stored_whole_and_read_whole(stream: JetStream) -> None:
    data = bytes(range(256)) * (3 * PIECE // 256)
    assert stream.publish(data, "1", 0) == 3
    found = stream.read(1)
    assert found is not None
    assert found == (1, 3, "1", data)
    assert stream.publish(b"b", "2", 3) == 4
    assert stream.follow(0, 5.0)[0] == found
    assert [m.data for m in stream.follow(3, 5.0)] == [b"b"]


def test_a_large_message_behind_a_fence_is_refused_whole(stream: JetStream) -> None:
    stream.publish(b"fence", "1", 0)
    with pytest.raises(Fenced):
        Publication(bytes(2 * PIECE), 0).attempt(stream)
    assert stream.last_sequence() == 1


def test_a_purge_removes_the_oldest_messages(stream: JetStream) -> None:
    for number in range(4):
        stream.publish(b"%d" % number, str(number), number)
    stream.purge(4)
    assert (stream.first_sequence(), stream.last_sequence()) == (4, 4)
    assert stream.read(1) is None
    assert [m.data for m in stream.follow(0, 5.0)] == [b"3"]


def test_a_stream_survives_one_of_its_servers(servers: NatsTrio, stream: JetStream) -> None:
    last = stream.publish(b"a", "1", 0)
    assert last is not None
    servers.kill(0)
    try:
        assert until_stored(Publication(b"b", last), stream) == 2
        assert until_followed(stream, 2) == [b"a", b"b"]
    finally:
        servers.start(0)
