"""A client's end of MDP, for the SDK.

It speaks version 0.2 to a Dragoman broker. MDP has no request ids, so each request begins with a
note that names the job, and each reply returns it. Another broker would forward the note to the
worker: use a plain MDP client there.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.mdp.wire import ClientReply, ClientRequest, Parts, decode, encode
from dragoman.dialects.notes import (
    Note,
    fault_code,
    read_fault,
    read_names,
    read_note,
    write_note,
)
from dragoman.dialects.parts import answer_parts, call_parts, read_answer, unpack
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
    Unsupported,
)
from dragoman.model.content import Answer
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName, raw_of


class MdpClientSide:
    """The client side of MDP."""

    def hello(self) -> list[Frames]:
        """Return nothing: MDP has no greeting."""
        return []

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job. The broker recognises a repeated job by its id or key."""
        body = (write_note(_submission_note(submission)), *call_parts(submission.call))
        return [encode(ClientRequest(service_bytes(submission.service), body))]

    def ask(self, job: JobId) -> list[Frames]:
        """Request the result of a job."""
        return [_question({"ask": "result", "job": job})]

    def cancel(self, job: JobId) -> list[Frames]:
        """Request that a job stops."""
        return [_question({"ask": "cancel", "job": job})]

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        note = {"ask": "input", "job": job, "worker": worker, "request": request}
        return [_question(note, answer_parts(Answer(answer)))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Raise `Unsupported`: MDP has no events."""
        raise Unsupported("MDP has no events: follow them over NFP or HTTP")

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Decode one message. Anything but a reply to our own requests is ignored."""
        try:
            message = decode(frames, to_broker=False)
        except MalformedMessage:
            return []
        if not isinstance(message, ClientReply):
            return []
        note = read_note(message.body[0])
        job, kind = (note.get("job"), note.get("kind")) if note is not None else (None, None)
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if note is None or read is None or not isinstance(job, str):
            return []
        return read(JobId(job), note, message.body[1:])


def service_bytes(name: str) -> bytes:
    """Encode a service name: as text, or as the bytes of its hex form."""
    try:
        return raw_of(name)
    except ValueError:
        return name.encode()


def _question(note: Note, data: Parts = ()) -> Frames:
    return encode(ClientRequest(b"", (write_note(note), *data)))


def _submission_note(submission: Submission) -> Note:
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


def _result(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    answer = replace(
        read_answer(data),
        worker=_text(note, "worker"),
        resources=read_names(note.get("resources")),
    )
    state = JobState.FAILED if answer.fault is not None else JobState.SUCCEEDED
    return [Finished(job, (answer,), answer.fault, state)]


def _fault(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    fault, worker = read_fault(note), _text(note, "worker")
    answers = (Answer(fault=fault, worker=worker),) if worker else ()
    return [Finished(job, answers, fault, _state(note))]


def _gathered(job: JobId, note: Note, data: Parts) -> list[ClientNotice]:
    try:
        each = unpack(data[0]) if data else {}
    except ValueError:
        each = {}
    found = each.items() if isinstance(each, dict) else ()
    answers = tuple(_part(str(worker), part) for worker, part in found)
    fault = next((a.fault for a in answers if a.fault is not None), None)
    return [Finished(job, answers, fault, _state(note))]


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


def _state(note: Note) -> JobState:
    state = note.get("state")
    return JobState(state) if isinstance(state, str) and state in _STATES else JobState.FAILED


_STATES: Final = frozenset(state.value for state in JobState)
_READERS: Final[dict[str, Callable[[JobId, Note, Parts], list[ClientNotice]]]] = {
    "result": _result,
    "fault": _fault,
    "gathered": _gathered,
    "status": lambda job, note, data: [
        StatusNotice(job, *(_text(note, name) for name in ("state", "detail", "code")))
    ],
    "queued": lambda job, note, data: [Queued(job)],
    "dispatched": _dispatched,
    "progress": _progress,
    "chunk": _chunk,
    "input_asked": _input_asked,
}
