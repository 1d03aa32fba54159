"""A client's end of DCP, for the SDK.

Each request has a note with the job id as its first metadata part. The broker uses this id, and the
reply returns it. A broker without notes forwards the note unread; then there are results, but no
progress.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.dcp.body_codec import NAME, DcpBodyCodec
from dragoman.dialects.dcp.notes import request_note, take_report
from dragoman.dialects.dcp.wire import NARROW, DcpReply, DcpRequest, Tail, data_of, decode, encode
from dragoman.dialects.notes import Note, fault_code, read_fault, read_names, write_note
from dragoman.dialects.parts import answer_parts, call_parts, unpack
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
from dragoman.model.body import Body
from dragoman.model.content import Answer
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName, raw_of


class DcpClientSide:
    """The client side of DCP."""

    def __init__(self, width: int = NARROW) -> None:
        self._width = width
        self._codec = DcpBodyCodec()

    def hello(self) -> list[Frames]:
        """Return nothing: DCP has no greeting."""
        return []

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job. The broker recognises a repeated job by its id."""
        if submission.key:
            raise Unsupported("DCP has no idempotency keys: use the same job id instead")
        tail = (write_note(_submission_note(submission)), b"", *call_parts(submission.call))
        return [self._request(service_bytes(submission.service), tail)]

    def ask(self, job: JobId) -> list[Frames]:
        """Request the result of a job."""
        return [self._question({"ask": "result", "job": job})]

    def cancel(self, job: JobId) -> list[Frames]:
        """Request that a job stops."""
        return [self._question({"ask": "cancel", "job": job})]

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        note = {"ask": "input", "job": job, "worker": worker, "request": request}
        return [self._question(note, answer_parts(Answer(answer)))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Raise `Unsupported`: DCP has no events."""
        raise Unsupported("DCP has no events: follow them over NFP or HTTP")

    def _question(self, note: Note, data: Tail = ()) -> Frames:
        return self._request(b"", (write_note(note), b"", *data))

    def _request(self, service: bytes, tail: Tail) -> Frames:
        return encode(DcpRequest(service, b"", tail, self._width))

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Decode one message. Anything but a reply to our own requests is ignored."""
        try:
            message = decode(frames)
        except MalformedMessage:
            return []
        # DagBox's broker sends a queued request back to its client.
        if type(message) is not DcpReply:
            return []
        self._width = message.width
        tail, report = take_report(message.tail)
        note = request_note(tail)
        job = note.get("job") if note is not None else None
        if not isinstance(job, str):
            return []
        kind = report["kind"] if report is not None else "final"
        read = _READERS.get(kind) if isinstance(kind, str) else None
        return read(self, JobId(job), report or {}, data_of(tail)) if read is not None else []

    def _final(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        answer = self._codec.read_answer(Body(NAME, (b"", *data)))
        resources = read_names(note.get("resources"))
        answer = replace(answer, worker=_text(note, "worker"), resources=resources)
        if answer.fault is not None:
            return [Finished(job, (answer,), answer.fault, JobState.FAILED)]
        return [Finished(job, (answer,), state=JobState.SUCCEEDED)]

    def _fault(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        fault = read_fault(note)
        worker = _text(note, "worker")
        answers = (Answer(fault=fault, worker=worker),) if worker else ()
        return [Finished(job, answers, fault, _state(note))]

    def _gathered(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        answers = tuple(_each(data))
        fault = next((a.fault for a in answers if a.fault is not None), None)
        return [Finished(job, answers, fault, _state(note))]

    def _result(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        if note.get("gathered"):
            return self._gathered(job, note, data)
        if "code" in note:
            return [Finished(job, (), read_fault(note), _state(note))]
        return self._final(job, note, data)

    def _status(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        state, detail, code = (_text(note, name) for name in ("state", "detail", "code"))
        return [StatusNotice(job, state, detail, code)]

    def _queued(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        return [Queued(job)]

    def _dispatched(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        names = note.get("workers")
        listed = names if isinstance(names, list) else []
        return [Dispatched(job, tuple(WorkerName(str(n)) for n in listed))]

    def _progress(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        answer = self._codec.read_answer(Body(NAME, (b"", *data)))
        return [Progress(job, _content(answer), _text(note, "worker"))]

    def _chunk(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        content = _content(self._codec.read_answer(Body(NAME, (b"", *data))))
        piece = content if isinstance(content, bytes) else b"".join(data)
        return [Chunk(job, piece, _text(note, "worker"))]

    def _input_asked(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        question = _content(self._codec.read_answer(Body(NAME, (b"", *data))))
        return [InputAsked(job, _text(note, "request"), question, _text(note, "worker"))]


def service_bytes(name: str) -> bytes:
    """Encode a service name: as text, or as the bytes of its hex form."""
    try:
        return raw_of(name)
    except ValueError:
        return name.encode()


def _submission_note(submission: Submission) -> Note:
    note: Note = {"job": submission.job}
    if submission.call.task:
        note["task"] = submission.call.task
    if submission.call.timeout is not None:
        note["timeout"] = submission.call.timeout
    if submission.priority:
        note["priority"] = submission.priority
    if submission.options:
        note["options"] = submission.options
    target = str(submission.target)
    return note if target == "any" else note | {"target": target}


def _content(answer: Answer) -> object:
    return answer.value if answer.raw is None else answer.raw


def _text(note: Note, name: str) -> str:
    text = note.get(name)
    return text if isinstance(text, str) else ""


def _state(note: Note) -> JobState:
    state = note.get("state")
    return JobState(state) if isinstance(state, str) and state in _STATES else JobState.FAILED


def _each(data: Tail) -> list[Answer]:
    """Decode the map of a gathered result."""
    try:
        parts = unpack(data[0]) if data else {}
    except ValueError:
        return []
    return [_part(str(w), p) for w, p in parts.items()] if isinstance(parts, dict) else []


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


_STATES: Final = frozenset(state.value for state in JobState)
_READERS: Final[dict[str, Callable[[DcpClientSide, JobId, Note, Tail], list[ClientNotice]]]] = {
    "final": DcpClientSide._final,
    "fault": DcpClientSide._fault,
    "gathered": DcpClientSide._gathered,
    "result": DcpClientSide._result,
    "status": DcpClientSide._status,
    "queued": DcpClientSide._queued,
    "dispatched": DcpClientSide._dispatched,
    "progress": DcpClientSide._progress,
    "chunk": DcpClientSide._chunk,
    "input_asked": DcpClientSide._input_asked,
}
