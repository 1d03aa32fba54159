"""What a client with notes sends and reads: the same in every dialect of opaque parts.

Each request has a note that names its job, and each reply returns it with its kind. The dialect
finds the note and the data parts in its own messages.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dragoman.dialects.notes import Note, fault_code, read_fault, read_names
from dragoman.dialects.parts import Parts, read_answer, unpack
from dragoman.dialects.peer_sides import (
    Chunk,
    ClientNotice,
    Dispatched,
    Finished,
    InputAsked,
    Progress,
    Queued,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName, raw_of

#: Reads a reply of one kind: job, note, data parts.
Reader = Callable[[JobId, Note, Parts], list[ClientNotice]]


def service_bytes(name: str) -> bytes:
    """Encode a service name: as text, or as the bytes of its hex form."""
    try:
        return raw_of(name)
    except ValueError:
        return name.encode()


def submission_note(submission: Submission) -> Note:
    """Make the note of a request."""
    note: Note = {"job": submission.job}
    wanted = {
        "task": submission.call.task,
        "timeout": submission.call.timeout,
        "priority": submission.priority,
        "key": submission.key,
        "options": submission.options,
    }
    note |= {name: value for name, value in wanted.items() if value}
    target = str(submission.target)
    return note if target == "any" else note | {"target": target}


def read_result(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    """Decode the result of one worker."""
    answer = replace(
        read_answer(data), worker=_text(note, "worker"), resources=read_names(note.get("resources"))
    )
    state = JobState.FAILED if answer.fault is not None else JobState.SUCCEEDED
    return [Finished(job, (answer,), answer.fault, state)]


def read_gathered(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    """Decode the results of several workers, a map by their names."""
    try:
        each = unpack(data[0]) if data else {}
    except ValueError:
        each = {}
    found = each.items() if isinstance(each, dict) else ()
    answers = tuple(_part(str(worker), part) for worker, part in found)
    fault = next((a.fault for a in answers if a.fault is not None), None)
    return [Finished(job, answers, fault, state_of(note))]


def state_of(note: Note) -> JobState:
    """Return the state of an ended job."""
    state = note.get("state")
    return JobState(state) if isinstance(state, str) and state in _STATES else JobState.FAILED


def _fault(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    fault, worker = read_fault(note), _text(note, "worker")
    answers = (Answer(fault=fault, worker=worker),) if worker else ()
    return [Finished(job, answers, fault, state_of(note))]


def _part(worker: str, part: object) -> Answer:
    if not isinstance(part, dict):
        return Answer(part, worker=worker)
    worker, resources = _text(part, "worker") or worker, read_names(part.get("resources"))
    if "fault" in part:
        fault = Fault(fault_code(part["fault"]), str(part.get("message", "")))
        return Answer(fault=fault, worker=worker, resources=resources)
    value = part.get("value")
    is_raw = isinstance(value, bytes)
    raw = value if is_raw else None
    return Answer(None if is_raw else value, raw, worker=worker, resources=resources)


def _status(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    return [StatusNotice(job, *(_text(note, name) for name in ("state", "detail", "code")))]


def _queued(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    return [Queued(job)]


def _dispatched(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    return [Dispatched(job, tuple(map(WorkerName, read_names(note.get("workers")))))]


def _progress(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    return [Progress(job, _content(data), _text(note, "worker"))]


def _chunk(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    content = _content(data)
    piece = content if isinstance(content, bytes) else b"".join(data)
    return [Chunk(job, piece, _text(note, "worker"))]


def _input_asked(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    return [InputAsked(job, _text(note, "request"), _content(data), _text(note, "worker"))]


def _content(data: Parts) -> object:
    answer = read_answer(data)
    return answer.value if answer.raw is None else answer.raw


def _text(note: Note, name: str) -> str:
    text = note.get(name)
    return text if isinstance(text, str) else ""


_STATES: Final = frozenset(state.value for state in JobState)
#: By the kind of a reply.
READERS: Final[dict[str, Reader]] = {
    "result": read_result,
    "fault": _fault,
    "gathered": read_gathered,
    "status": _status,
    "queued": _queued,
    "dispatched": _dispatched,
    "progress": _progress,
    "chunk": _chunk,
    "input_asked": _input_asked,
}
