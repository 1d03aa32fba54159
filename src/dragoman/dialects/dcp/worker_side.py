"""A worker's end of DCP, for the SDK.

It registers with a note. A broker that sends the note back uses notes; then there are progress,
faults, input and cancels. With any other broker it keeps to the text: results, forwarded requests
and heartbeats. In the text a ping of a busy worker requests more work.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage, check_result_size
from dragoman.dialects.dcp.body_codec import NAME, DcpBodyCodec
from dragoman.dialects.dcp.notes import request_note, take_report, with_report
from dragoman.dialects.dcp.wire import (
    NARROW,
    DcpReply,
    DcpRequest,
    Ping,
    Pong,
    Reconnect,
    Registration,
    Tail,
    decode,
    encode,
    metadata_of,
)
from dragoman.dialects.dcp.workers import mark_of
from dragoman.dialects.note_notices import service_bytes
from dragoman.dialects.notes import Note, fault_note, read_names, read_note, write_note
from dragoman.dialects.parts import answer_parts, call_parts, pack
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Dismissed,
    InputGiven,
    Stop,
    Unsupported,
    WorkerNotice,
)
from dragoman.dialects.peer_sides import SendNow as SendNow
from dragoman.dialects.unconfirmed import UnconfirmedResults
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId
from dragoman.model.value import value

#: The broker answers every ping. After so many unanswered pings it is lost.
_PINGS_UNANSWERED: Final = 5


@value
class _Task:
    """A request that runs, with what its reply must return."""

    client: bytes
    tail: Tail
    #: The request was data parts, not a call, so the result is data parts, too.
    is_parts: bool
    #: Empty if the request does not name its job.
    job: str = ""


class DcpWorkerSide:
    """The worker side of DCP."""

    def __init__(
        self,
        service: str,
        *,
        name: str = "",
        concurrency: int = 1,
        beat_every: float = 1.0,
        width: int = NARROW,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.beat_every = beat_every
        self._service = service_bytes(service)
        self._name = name
        self._labels = dict(labels or {})
        self._concurrency = concurrency
        self._width = width
        self._codec = DcpBodyCodec()
        self._tasks: dict[str, _Task] = {}
        self._unconfirmed = UnconfirmedResults()
        self._count = 0
        #: Whether the broker has sent the registration back.
        self.is_joined = False
        #: Whether the broker sent our note back, and so uses notes.
        self._has_notes = False

    @property
    def hold(self) -> float | None:
        """Return how long the broker may be silent; None while only pongs are sent."""
        return None if self._must_not_ping else self.beat_every * _PINGS_UNANSWERED

    @property
    def _must_not_ping(self) -> bool:
        """Whether a ping would request more work than the worker can run."""
        return not self._has_notes and len(self._tasks) >= self._concurrency

    @property
    def can_give_back(self) -> bool:
        """Whether the broker gives a returned job to another worker."""
        return self._has_notes

    def join(self) -> list[Frames]:
        """Register."""
        self.is_joined = False
        note: Note = {"credit": self._concurrency, "beat_every": self.beat_every, "polls": True}
        if self._name:
            note["name"] = self._name
        if self._labels:
            note["labels"] = self._labels
        if all(task.job for task in self._tasks.values()):
            jobs = [*(task.job for task in self._tasks.values()), *self._unconfirmed.jobs()]
            note["holds"] = jobs or 0
        return [encode(Registration(self._service, (write_note(note),), self._width))]

    def confirm(self) -> list[Frames]:
        """Ask which of the finished jobs the broker still waits for, if it uses notes."""
        jobs = self._unconfirmed.jobs()
        if not jobs or not self._has_notes:
            return []
        note = write_note({"ask": "confirm", "jobs": jobs})
        return [encode(DcpRequest(self._service, b"", (note, b""), self._width))]

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Decode one message. Unreadable messages are ignored."""
        try:
            message = decode(frames)
        except MalformedMessage:
            return []
        self._width = message.width
        if type(message) is DcpRequest:
            return self._request(message)
        if type(message) is Registration:
            self.is_joined = True
            self._has_notes = bool(message.surplus) and read_note(message.surplus[0]) is not None
            return [Alive()]
        if type(message) is Pong:
            return [Alive()]
        if type(message) is Ping:
            return [SendNow(encode(Pong(self._width))), Alive()]
        if type(message) is Reconnect:
            note = (read_note(message.surplus[0]) if message.surplus else None) or {}
            asked = "the broker asks for a new registration"
            return [Dismissed(str(note.get("reason") or asked))]
        return []

    def _request(self, m: DcpRequest) -> list[WorkerNotice]:
        tail, report = take_report(m.tail)
        if report is not None and report["kind"] in ("input", "cancel", "poll"):
            return self._about(m.client, tail, report)
        if report is not None and report["kind"] == "confirmed":
            lost = self._unconfirmed.settle(
                read_names(report.get("recorded")), read_names(report.get("open"))
            )
            return [*(SendNow(frames) for frames in lost), Alive()]
        self._count += 1
        ticket = str(self._count)
        call = self._codec.read_call(Body(NAME, m.tail))
        note = request_note(m.tail) or {}
        job, timeout = note.get("job"), note.get("timeout")
        named = job if isinstance(job, str) else ""
        self._tasks[ticket] = _Task(m.client, m.tail, not call.task, named)
        return [
            Assigned(
                ticket,
                JobId(named or ticket),
                call,
                m.service.decode(errors="replace"),
                m.client.decode(errors="replace"),
                timeout if isinstance(timeout, int | float) else None,
                read_names(note.get("resources")),
            )
        ]

    def _about(self, client: bytes, tail: Tail, report: Note) -> list[WorkerNotice]:
        """Decode a note about a running request: the oldest with the same mark."""
        mark = mark_of(client, tail)
        tickets = (t for t, k in self._tasks.items() if mark_of(k.client, k.tail) == mark)
        ticket = next(tickets, None)
        if report["kind"] == "poll":
            result = self._unconfirmed.result_of(mark) or self._missing(client, tail)
            return [] if ticket is not None else [SendNow(result)]
        if ticket is None:
            return []
        if report["kind"] == "cancel":
            return [Stop(ticket)]
        answer = self._codec.read_answer(Body(NAME, tail))
        request = report.get("request")
        name = request if isinstance(request, str) else ""
        return [InputGiven(ticket, name, answer.value if answer.raw is None else answer.raw)]

    def _missing(self, client: bytes, tail: Tail) -> Frames:
        """Report that the worker does not have a request, or has answered it."""
        fault = Fault(FaultCode.HANDED_BACK, "the worker does not have it")
        report = with_report((*metadata_of(tail), b""), fault_note(fault))
        return encode(DcpReply(client, report, self._width))

    def take(self, ticket: str) -> list[Frames]:
        """Return nothing: DCP has no confirmation."""
        return []

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Report progress, if the broker uses notes."""
        return self._report(ticket, "progress", answer_parts(Answer(event)))

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream, if the broker uses notes."""
        return self._report(ticket, "chunk", (pack(data),))

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Ask the client a question."""
        if not self._has_notes:
            raise Unsupported("DCP has no questions to clients, and this broker uses no notes")
        return self._report(ticket, "input_asked", answer_parts(Answer(question)), request=request)

    def _report(self, ticket: str, kind: str, data: Tail, **more: object) -> list[Frames]:
        task = self._tasks.get(ticket)
        if task is None or not self._has_notes:
            return []
        tail = (*metadata_of(task.tail), write_note({"kind": kind, **more}), b"", *data)
        return [encode(DcpReply(task.client, tail, self._width))]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        task = self._tasks.pop(ticket, None)
        if task is None:
            return []
        try:
            data = _result(task, answer, self._has_notes)
            check_result_size(data)
        except Unmappable as error:
            answer = Answer(fault=Fault(error.code, str(error)))
            data = _result(task, answer, self._has_notes)
        tail = (*metadata_of(task.tail), b"", *data)
        if answer.fault is not None and self._has_notes:
            tail = with_report(tail, fault_note(answer.fault))
        frames = encode(DcpReply(task.client, tail, self._width))
        if self._has_notes:
            self._unconfirmed.keep(task.job, mark_of(task.client, task.tail), frames)
        return [frames]

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job without running it: as a fault, or by sending the request back."""
        if self._has_notes:
            fault = Fault(FaultCode.HANDED_BACK, "the worker returned it without running it")
            return self.finish(ticket, Answer(fault=fault))
        task = self._tasks.pop(ticket, None)
        if task is None:
            return []
        return [encode(DcpRequest(self._service, task.client, task.tail, self._width))]

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Forward the job to another service; the client stays the same."""
        task = self._tasks.pop(ticket, None)
        if task is None:
            return []
        tail = (*metadata_of(task.tail), b"", *call_parts(call))
        return [encode(DcpRequest(service_bytes(service), task.client, tail, self._width))]

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Raise `Unsupported`: DCP has no events."""
        raise Unsupported("DCP has no events: publish them over NFP")

    def beat(self) -> list[Frames]:
        """Send a heartbeat: a ping, or a pong if a ping would request more work."""
        return [encode(Pong(self._width) if self._must_not_ping else Ping(self._width))]

    def leave(self) -> list[Frames]:
        """Unregister, with the one message that has no other meaning for a broker."""
        return [encode(Reconnect(self._width))]


def _result(task: _Task, answer: Answer, has_notes: bool) -> Tail:
    """Encode a result: data parts for data parts, one part for a call."""
    if answer.fault is not None and has_notes:
        return ()
    if task.is_parts and answer.fault is None and _is_parts(answer.value):
        return tuple(answer.value)
    return answer_parts(answer)


def _is_parts(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(type(p) is bytes for p in value)
