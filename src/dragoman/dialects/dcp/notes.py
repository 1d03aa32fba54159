"""Notes: how Dragoman's own DCP peers say what the protocol has no words for.

A note is one part, `dragoman:` and a JSON object. It travels where DCP lets anything travel: as a
metadata part (other workers copy it unread) or as a surplus frame of a registration (other brokers
ignore it). So a peer that knows nothing of notes is never disturbed by one, and a note that is
missing only means that the other side does not know them.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dragoman.dialects.dcp.wire import Tail, metadata_of
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.target import ANY, Target, parse_target

Note = dict[str, Any]

PREFIX: Final = b"dragoman:"
#: A longer one is not ours: it is kept as plain metadata.
_LONGEST: Final = 256 * 1024
_LONGEST_NAME: Final = 256
_MOST_CREDIT: Final = 10_000
_READ: Final = msgspec.json.Decoder(dict[str, Any])
_WRITE: Final = msgspec.json.Encoder()


def write_note(said: Mapping[str, Any]) -> bytes:
    """Write a note."""
    return PREFIX + _WRITE.encode(said)


def read_note(part: bytes) -> Note | None:
    """Read a note; None when the part is something else."""
    if not part.startswith(PREFIX) or len(part) > _LONGEST:
        return None
    try:
        return _READ.decode(part[len(PREFIX) :])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def request_note(tail: Tail) -> Note | None:
    """Return the note a client of ours put before all other metadata."""
    return read_note(tail[0])


def take_report(tail: Tail) -> tuple[Tail, Note | None]:
    """Split off the note that a worker or broker of ours put after all other metadata."""
    metadata = metadata_of(tail)
    note = read_note(metadata[-1]) if metadata else None
    if note is None or "kind" not in note:
        return tail, None
    end = len(metadata)
    return tail[: end - 1] + tail[end:], note


def with_report(tail: Tail, note: Note) -> Tail:
    """Put a note after all other metadata."""
    end = tail.index(b"")
    return (*tail[:end], write_note(note), *tail[end:])


def fault_note(fault: Fault) -> Note:
    """Say that a job failed, and how."""
    return {"kind": "fault", "code": fault.code.value, "message": fault.message}


def read_fault(note: Note) -> Fault:
    """Read a fault; a code from a newer peer is a failed task."""
    message = note.get("message")
    return Fault(fault_code(note.get("code")), message if isinstance(message, str) else "")


def fault_code(said: object) -> FaultCode:
    """Read the name of a fault, whatever a peer put in its place."""
    if isinstance(said, str) and said in _CODES:
        return FaultCode(said)
    return FaultCode.TASK_FAILED


def said_text(said: object) -> str:
    """Read a name or id; what is no short printable text counts as not said."""
    if isinstance(said, str) and len(said) <= _LONGEST_NAME and said.isprintable():
        return said
    return ""


def said_names(said: object) -> tuple[str, ...]:
    """Read a list of names; what is none counts as not said."""
    return tuple(each for each in said if isinstance(each, str)) if isinstance(said, list) else ()


def said_labels(said: object) -> dict[str, str]:
    """Read a worker's labels; what is none counts as not said."""
    pairs = said.items() if isinstance(said, dict) else ()
    return {key: label for key, label in pairs if isinstance(label, str)}


def said_number(said: object) -> float | None:
    """Read a positive number of a sensible size."""
    return said if isinstance(said, int | float) and 0 < said < 1e9 else None


def said_credit(said: object) -> int:
    """Read how much a worker can hold."""
    return min(max(said, 1), _MOST_CREDIT) if type(said) is int else 1


def said_target(said: object) -> Target:
    """Read whom a request is for. Raises ValueError on what cannot be read."""
    return parse_target(said_text(said)) if said else ANY


_CODES: Final = frozenset(code.value for code in FaultCode)
