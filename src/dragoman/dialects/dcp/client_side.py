"""A client's end of DCP, for the SDK.

Each request carries a note as its first metadata part, with the job's id: the broker takes the id
from it, and the reply brings it back. A broker that reads no notes passes it on all the same; then
there are results, and no word on the way.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.dcp.body_codec import NAME, DcpBodyCodec, answer_parts, call_parts, unpack
from dragoman.dialects.dcp.notes import (
    Note,
    fault_code,
    read_fault,
    request_note,
    said_names,
    take_report,
    write_note,
)
from dragoman.dialects.dcp.wire import NARROW, DcpReply, DcpRequest, Tail, data_of, decode, encode
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
    """What one client says and hears."""

    def __init__(self, width: int = NARROW) -> None:
        self._width = width
        self._codec = DcpBodyCodec()

    def hello(self) -> list[Frames]:
        """Say nothing: clients of DCP just ask."""
        return []

    def submit(self, order: Submission) -> list[Frames]:
        """Ask for work; the broker knows the same job by its id."""
        if order.key:
            raise Unsupported("DCP has no idempotency keys: use the same job id instead")
        tail = (write_note(_order_note(order)), b"", *call_parts(order.call))
        return [self._request(service_bytes(order.service), tail)]

    def ask(self, job: JobId) -> list[Frames]:
        """Ask for the result of a job."""
        return [self._question({"ask": "result", "job": job})]

    def cancel(self, job: JobId) -> list[Frames]:
        """Ask for a job to stop."""
        return [self._question({"ask": "cancel", "job": job})]

    def give_input(self, job: JobId, request: str, answer: Any, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        note = {"ask": "input", "job": job, "worker": worker, "request": request}
        return [self._question(note, answer_parts(Answer(answer)))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Refuse: DCP has no events."""
        raise Unsupported("DCP has no events: follow them over NFP or HTTP")

    def _question(self, note: Note, data: Tail = ()) -> Frames:
        return self._request(b"", (write_note(note), b"", *data))

    def _request(self, service: bytes, tail: Tail) -> Frames:
        return encode(DcpRequest(service, b"", tail, self._width))

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Take one message in; what is not a reply to one of ours is ignored."""
        try:
            message = decode(frames)
        except MalformedMessage:
            return []
        # DagBox's broker sends a queued request back to its client: not for us.
        if type(message) is not DcpReply:
            return []
        self._width = message.width
        tail, report = take_report(message.tail)
        said = request_note(tail)
        job = said.get("job") if said is not None else None
        if not isinstance(job, str):
            return []
        kind = report["kind"] if report is not None else "final"
        read = _READERS.get(kind) if isinstance(kind, str) else None
        return read(self, JobId(job), report or {}, data_of(tail)) if read is not None else []

    def _final(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        answer = self._codec.read_answer(Body(NAME, (b"", *data)))
        resources = said_names(note.get("resources"))
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

    def _standing(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        return [StatusNotice(job, _text(note, "state"), _text(note, "detail"))]

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
        said = _content(self._codec.read_answer(Body(NAME, (b"", *data))))
        piece = said if isinstance(said, bytes) else b"".join(data)
        return [Chunk(job, piece, _text(note, "worker"))]

    def _input_asked(self, job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
        question = _content(self._codec.read_answer(Body(NAME, (b"", *data))))
        return [InputAsked(job, _text(note, "request"), question, _text(note, "worker"))]


def service_bytes(name: str) -> bytes:
    """Write a service's name as DCP bytes: text, or what its hex form stands for."""
    try:
        return raw_of(name)
    except ValueError:
        return name.encode()


def _order_note(order: Submission) -> Note:
    note: Note = {"job": order.job}
    if order.call.task:
        note["task"] = order.call.task
    if order.call.timeout is not None:
        note["timeout"] = order.call.timeout
    if order.priority:
        note["priority"] = order.priority
    target = str(order.target)
    return note if target == "any" else note | {"target": target}


def _content(answer: Answer) -> Any:
    return answer.value if answer.raw is None else answer.raw


def _text(note: Note, name: str) -> str:
    said = note.get(name)
    return said if isinstance(said, str) else ""


def _state(note: Note) -> JobState:
    said = note.get("state")
    return JobState(said) if isinstance(said, str) and said in _STATES else JobState.FAILED


def _each(data: Tail) -> list[Answer]:
    """Read the map of a gathered result."""
    try:
        said = unpack(data[0]) if data else {}
    except ValueError:
        return []
    return [_part(str(w), p) for w, p in said.items()] if isinstance(said, dict) else []


def _part(worker: str, said: Any) -> Answer:
    if not isinstance(said, dict):
        return Answer(said, worker=worker)
    worker, resources = _text(said, "worker") or worker, said_names(said.get("resources"))
    if "fault" in said:
        fault = Fault(fault_code(said["fault"]), str(said.get("message", "")))
        return Answer(fault=fault, worker=worker, resources=resources)
    value = said.get("value")
    is_raw = isinstance(value, bytes)
    raw = value if is_raw else None
    return Answer(None if is_raw else value, raw, worker=worker, resources=resources)


_STATES: Final = frozenset(state.value for state in JobState)
_READERS: Final[dict[str, Callable[[DcpClientSide, JobId, Note, Tail], list[ClientNotice]]]] = {
    "final": DcpClientSide._final,
    "fault": DcpClientSide._fault,
    "gathered": DcpClientSide._gathered,
    "result": DcpClientSide._result,
    "status": DcpClientSide._standing,
    "queued": DcpClientSide._queued,
    "dispatched": DcpClientSide._dispatched,
    "progress": DcpClientSide._progress,
    "chunk": DcpClientSide._chunk,
    "input_asked": DcpClientSide._input_asked,
}
