"""Notes: how Dragoman's own peers send what a protocol has no field for.

A note is one part: `dragoman:` and a JSON object. It is in a place that the protocol leaves open,
where other peers ignore it or copy it unread. If a note is missing, the other peer does not use
notes.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dragoman.dialects.base import MalformedMessage
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job_options import apply_options
from dragoman.model.names import JobId
from dragoman.model.target import ANY, Target, parse_target
from dragoman.model.terms import Terms

Note = dict[str, Any]

PREFIX: Final = b"dragoman:"
#: A longer part is not a note: it stays metadata.
_LONGEST: Final = 256 * 1024
_LONGEST_NAME: Final = 256
_MOST_CREDIT: Final = 10_000
_READ: Final = msgspec.json.Decoder(dict[str, object])
_WRITE: Final = msgspec.json.Encoder()


def write_note(value: Mapping[str, object]) -> bytes:
    """Encode a note."""
    return PREFIX + _WRITE.encode(value)


def read_note(part: bytes) -> Note | None:
    """Decode a note; None if the part is something else."""
    if not part.startswith(PREFIX) or len(part) > _LONGEST:
        return None
    try:
        return _READ.decode(part[len(PREFIX) :])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def fault_note(fault: Fault) -> Note:
    """Make the note of a fault."""
    return {"kind": "fault", "code": fault.code.value, "message": fault.message}


def read_fault(note: Note) -> Fault:
    """Decode a fault. An unknown code, of a newer peer, becomes a failed task."""
    message = note.get("message")
    return Fault(fault_code(note.get("code")), message if isinstance(message, str) else "")


def fault_code(value: object) -> FaultCode:
    """Decode the code of a fault. Anything unknown becomes a failed task."""
    if isinstance(value, str) and value in _CODES:
        return FaultCode(value)
    return FaultCode.TASK_FAILED


def read_text(value: object) -> str:
    """Decode a name or id. Anything but short printable text becomes empty."""
    if isinstance(value, str) and len(value) <= _LONGEST_NAME and value.isprintable():
        return value
    return ""


def read_names(value: object) -> tuple[str, ...]:
    """Decode a list of names. Anything else becomes empty."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def read_holds(value: object) -> frozenset[JobId] | None:
    """Decode what a worker declares to hold: 0 or a list of jobs; None: it declares nothing."""
    if value == 0:
        return frozenset()
    return frozenset(map(JobId, read_names(value))) if isinstance(value, list) else None


def read_labels(value: object) -> dict[str, str]:
    """Decode a worker's labels. Anything else becomes empty."""
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: label for key, label in pairs if isinstance(label, str)}


def read_number(value: object) -> float | None:
    """Decode a positive number below 1e9; None for anything else."""
    return value if isinstance(value, int | float) and 0 < value < 1e9 else None


def read_credit(value: object) -> int:
    """Decode a worker's credit. The default is 1."""
    return min(max(value, 1), _MOST_CREDIT) if type(value) is int else 1


def read_target(value: object) -> Target:
    """Decode the target of a request. Raises ValueError."""
    return parse_target(read_text(value)) if value else ANY


def note_options(terms: Terms, note: Note) -> Terms:
    """Return terms with the options of a note."""
    try:
        return apply_options(terms, note.get("options"))
    except ValueError as error:
        raise MalformedMessage(str(error)) from None


_CODES: Final = frozenset(code.value for code in FaultCode)
