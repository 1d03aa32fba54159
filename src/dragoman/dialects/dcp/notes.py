"""Where notes are in DCP messages; see `dialects.notes`.

A note is a metadata part, which other workers copy unread, or a surplus frame of a registration,
which other brokers ignore.
"""

from dragoman.dialects.dcp.wire import Tail, metadata_of
from dragoman.dialects.notes import Note, read_note, write_note


def request_note(tail: Tail) -> Note | None:
    """Return the note of our own client: the first part."""
    return read_note(tail[0])


def take_report(tail: Tail) -> tuple[Tail, Note | None]:
    """Split off the note of our own worker or broker: the last metadata part."""
    metadata = metadata_of(tail)
    note = read_note(metadata[-1]) if metadata else None
    if note is None or "kind" not in note:
        return tail, None
    end = len(metadata)
    return tail[: end - 1] + tail[end:], note


def with_report(tail: Tail, note: Note) -> Tail:
    """Insert a note after all other metadata."""
    end = tail.index(b"")
    return (*tail[:end], write_note(note), *tail[end:])
