"""A worker's end of MDP, for the SDK.

It registers in version 0.2 with a note as a surplus frame. A Dragoman broker answers with a
heartbeat that has a note, too; then there are progress, faults, input, cancels and concurrency.
With any other broker it keeps to the text: one request at a time, PARTIAL, and the result.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage, check_result_size
from dragoman.dialects.mdp.wire import (
    MdpDisconnect,
    MdpHeartbeat,
    MdpReady,
    Parts,
    WorkerReply,
    WorkerRequest,
    decode,
    encode,
)
from dragoman.dialects.note_notices import service_bytes
from dragoman.dialects.notes import Note, fault_note, read_names, read_note, write_note
from dragoman.dialects.parts import answer_parts, call_parts, pack, read_answer, read_call
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Dismissed,
    InputGiven,
    SendNow,
    Stop,
    Unsupported,
    WorkerNotice,
)
from dragoman.dialects.unconfirmed import UnconfirmedResults
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId

#: The intervals that the text calls usual: after so many without a message the broker is lost.
_MISSED_ALLOWED: Final = 4


class MdpWorkerSide:
    """The worker side of MDP. A ticket is the client address frame, as text."""

    def __init__(
        self,
        service: str,
        *,
        name: str = "",
        concurrency: int = 1,
        beat_every: float = 1.0,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.beat_every = beat_every
        self._service = service_bytes(service)
        self._declared: Note = {"credit": concurrency, "beat_every": beat_every}
        self._declared |= {"name": name} if name else {}
        self._declared |= {"labels": dict(labels)} if labels else {}
        #: The job, envelope, and whether the request was parts, by ticket.
        self._running: dict[str, tuple[str, bytes, bool]] = {}
        self._unconfirmed = UnconfirmedResults()
        #: Whether the broker has sent anything since READY, which the text leaves unanswered.
        self.is_joined = False
        #: Whether the broker uses notes.
        self._has_notes = False

    @property
    def hold(self) -> float | None:
        """Return how long the broker may be silent. It sends heartbeats at its own interval."""
        return max(15.0, self.beat_every * _MISSED_ALLOWED)

    @property
    def can_give_back(self) -> bool:
        """Whether the broker gives a returned job to another worker."""
        return self._has_notes

    def join(self) -> list[Frames]:
        """Register, with the jobs that we hold."""
        self.is_joined = False
        running = [job for job, _, _ in self._running.values()]
        note = self._declared | {"holds": [*running, *self._unconfirmed.jobs()]}
        return [encode(MdpReady(self._service, (write_note(note),)))]

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Decode one message. Unreadable messages are ignored."""
        try:
            message = decode(frames)
        except MalformedMessage:
            return []
        self.is_joined = isinstance(message, WorkerRequest | MdpHeartbeat)
        if isinstance(message, WorkerRequest):
            return self._request(message)
        if isinstance(message, MdpHeartbeat):
            self._has_notes = self._has_notes or bool(message.surplus)
            return [*self._lost(message), Alive()]
        return [_dismissed(message)] if isinstance(message, MdpDisconnect) else []

    def confirm(self) -> list[Frames]:
        """Ask which of the finished jobs the broker still waits for, if it uses notes."""
        jobs = self._unconfirmed.jobs()
        if not jobs or not self._has_notes:
            return []
        return [encode(MdpHeartbeat((write_note({"unconfirmed": jobs}),)))]

    def _lost(self, m: MdpHeartbeat) -> list[WorkerNotice]:
        """Return the results that the broker still waits for, to send them again."""
        note = (read_note(m.surplus[0]) if m.surplus else None) or {}
        recorded, waits = read_names(note.get("recorded")), read_names(note.get("open"))
        return [SendNow(frames) for frames in self._unconfirmed.settle(recorded, waits)]

    def _request(self, m: WorkerRequest) -> list[WorkerNotice]:
        note = read_note(m.body[0]) if self._has_notes else None
        if note is None:
            return [self._assigned(m.client, m.body, {})]
        if note.get("kind") == "work":
            return [self._assigned(m.client, m.body[1:], note)]
        return self._about(m.client.decode(errors="replace"), m, note)

    def _assigned(self, envelope: bytes, body: Parts, note: Note) -> Assigned:
        ticket, call = envelope.decode(errors="replace"), read_call(body)
        job = _text(note, "job") or ticket
        self._running[ticket] = (job, envelope, not call.task)
        timeout = note.get("timeout")
        return Assigned(
            ticket,
            JobId(job),
            call,
            _text(note, "service") or self._service.decode(errors="replace"),
            _text(note, "client"),
            timeout if isinstance(timeout, int | float) else None,
            read_names(note.get("resources")),
        )

    def _about(self, ticket: str, m: WorkerRequest, note: Note) -> list[WorkerNotice]:
        """Decode a note about a running request."""
        kind = note.get("kind")
        if kind == "poll" and (result := self._unconfirmed.result_of(ticket)) is not None:
            return [SendNow(result)]
        if ticket not in self._running:
            # Lost on the way, or its reply is on the way: the broker recognises both.
            fault = Fault(FaultCode.HANDED_BACK, "the worker does not have it")
            reply = WorkerReply(m.client, (write_note(fault_note(fault)),))
            return [SendNow(encode(reply))] if kind == "poll" else []
        if kind == "cancel":
            return [Stop(ticket)]
        if kind != "input":
            return []
        answer = read_answer(m.body[1:])
        value = answer.value if answer.raw is None else answer.raw
        return [InputGiven(ticket, _text(note, "request"), value)]

    def take(self, ticket: str) -> list[Frames]:
        """Return nothing: MDP has no confirmation."""
        return []

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Report progress, if the broker uses notes."""
        return self._report(ticket, "progress", answer_parts(Answer(event)))

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream."""
        if self._has_notes:
            return self._report(ticket, "chunk", (pack(data),))
        found = self._running.get(ticket)
        return [encode(WorkerReply(found[1], (data,), is_final=False))] if found else []

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Ask the client a question."""
        if not self._has_notes:
            raise Unsupported("MDP has no questions to clients, and this broker uses no notes")
        return self._report(ticket, "input_asked", answer_parts(Answer(question)), request=request)

    def _report(self, ticket: str, kind: str, data: Parts, **more: object) -> list[Frames]:
        found = self._running.get(ticket)
        if found is None or not self._has_notes:
            return []
        body = (write_note({"kind": kind, **more}), *data)
        return [encode(WorkerReply(found[1], body, is_final=False))]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        found = self._running.pop(ticket, None)
        if found is None:
            return []
        try:
            data = _result(answer, found[2])
            check_result_size(data)
        except Unmappable as error:
            answer = Answer(fault=Fault(error.code, str(error)))
            data = answer_parts(answer)
        note = fault_note(answer.fault) if answer.fault else {"kind": "result"}
        (frames,) = self._final(found[1], note, data)
        if self._has_notes:
            self._unconfirmed.keep(found[0], ticket, frames)
        return [frames]

    def _final(self, envelope: bytes, note: Note, data: Parts) -> list[Frames]:
        body = (write_note(note), *data) if self._has_notes else data
        return [encode(WorkerReply(envelope, body or (b"",)))]

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job without running it. Another broker takes it for a failure."""
        fault = Fault(FaultCode.HANDED_BACK, "the worker returned it without running it")
        return self.finish(ticket, Answer(fault=fault))

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Forward the job to another service; the client stays the same."""
        if not self._has_notes:
            raise Unsupported("MDP has no forwarding, and this broker uses no notes")
        found = self._running.pop(ticket, None)
        if found is None:
            return []
        return self._final(found[1], {"kind": "forward", "service": service}, call_parts(call))

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Raise `Unsupported`: MDP has no events."""
        raise Unsupported("MDP has no events: publish them over NFP")

    def beat(self) -> list[Frames]:
        """Send a heartbeat."""
        return [encode(MdpHeartbeat())]

    def leave(self) -> list[Frames]:
        """Unregister."""
        return [encode(MdpDisconnect())]


def _text(note: Note, name: str) -> str:
    text = note.get(name)
    return text if isinstance(text, str) else ""


def _result(answer: Answer, is_parts: bool) -> Parts:
    """Encode a result: parts for a request in parts, one part for a call."""
    value = answer.value
    is_list = is_parts and answer.fault is None and isinstance(value, list | tuple)
    if is_list and value and all(type(part) is bytes for part in value):
        return tuple(value)
    return answer_parts(answer)


def _dismissed(m: MdpDisconnect) -> Dismissed:
    note = (read_note(m.surplus[0]) if m.surplus else None) or {}
    return Dismissed(str(note.get("reason") or "the broker disconnected this worker"))
