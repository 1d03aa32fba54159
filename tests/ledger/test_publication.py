"""A message on its way into the stream: stored once, in doubt, or fenced."""

from random import Random

import pytest

from dragoman.ledger.base import Fenced
from dragoman.ledger.memory_stream import PIECE, MemoryStream, StreamConnection, StreamFaults
from dragoman.ledger.publication import Publication, content_id


def always(**chances: float) -> StreamFaults:
    return StreamFaults(Random(1), **chances)


def test_a_stored_message_returns_its_last_sequence() -> None:
    stream = MemoryStream()
    assert Publication(b"a", 0).attempt(StreamConnection(stream)) == 1
    large = Publication(bytes(3 * PIECE), 1)
    assert large.attempt(StreamConnection(stream)) == 4
    assert [(m.first, m.last) for m in stream.messages] == [(1, 1), (2, 4)]


def test_a_lost_answer_is_in_doubt_and_the_same_message_is_found_not_stored_again() -> None:
    stream = MemoryStream()
    publication = Publication(b"a", 0)
    assert publication.attempt(StreamConnection(stream, always(lost_answer=1.0))) is None
    assert publication.attempt(StreamConnection(stream)) == 1
    assert stream.last == 1


def test_the_same_message_is_found_when_the_stream_no_longer_knows_its_id() -> None:
    stream = MemoryStream(remembers=0)
    publication = Publication(b"a", 0)
    assert publication.attempt(StreamConnection(stream, always(lost_answer=1.0))) is None
    assert publication.attempt(StreamConnection(stream)) == 1
    assert stream.last == 1


def test_a_message_that_arrives_late_is_stored_once() -> None:
    stream = MemoryStream(remembers=0)
    publication = Publication(b"a", 0)
    assert publication.attempt(StreamConnection(stream, always(late=1.0))) is None
    assert publication.attempt(StreamConnection(stream)) == 1
    stream.deliver_late()
    assert stream.last == 1


def test_another_message_at_the_place_fences() -> None:
    stream = MemoryStream()
    connection = StreamConnection(stream)
    Publication(b"of the new leader", 0).attempt(connection)
    with pytest.raises(Fenced, match="message 1"):
        Publication(b"of the old leader", 0).attempt(connection)


def test_a_message_that_arrives_behind_a_fence_is_refused() -> None:
    stream = MemoryStream()
    old = Publication(b"of the old leader", 0)
    assert old.attempt(StreamConnection(stream, always(late=1.0))) is None
    Publication(b"of the new leader", 0).attempt(StreamConnection(stream))
    stream.deliver_late()
    assert [m.data for m in stream.messages] == [b"of the new leader"]
    with pytest.raises(Fenced):
        old.attempt(StreamConnection(stream))


def test_a_place_that_cannot_be_read_yet_is_in_doubt() -> None:
    stream = MemoryStream()
    Publication(b"of the new leader", 0).attempt(StreamConnection(stream))
    old = Publication(b"of the old leader", 0)
    assert old.attempt(StreamConnection(stream, always(stale=1.0))) is None


@pytest.mark.parametrize("is_cut", [True, False])
def test_no_answer_is_in_doubt(is_cut: bool) -> None:
    stream = MemoryStream()
    connection = StreamConnection(stream)
    connection.is_cut, stream.servers = is_cut, 1
    assert Publication(b"a", 0).attempt(connection) is None


def test_an_id_depends_on_the_content() -> None:
    assert content_id(b"a") == content_id(b"a") != content_id(b"b")
