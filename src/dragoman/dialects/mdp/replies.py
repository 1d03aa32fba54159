"""Replies to MDP clients: results, streams, faults, MMI and Titanic.

A request stays here until it ends, with its service, its version and whether its client uses notes.
A plain client gets the final reply, and in 0.2 the pieces of a stream as PARTIAL.
"""

from enum import Enum, auto
from typing import Final

from dragoman.core.effects import JobStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import BodyCodecs, convert_answer, keyed_by_worker
from dragoman.dialects.mdp.wire import NAME, V2, ClientReply, Parts
from dragoman.dialects.notes import Note, fault_note, write_note
from dragoman.dialects.parts import answer_parts, pack
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId, PeerId

OK: Final = b"200"
PENDING: Final = b"300"
UNKNOWN: Final = b"400"
NOT_FOUND: Final = b"404"
ERROR: Final = b"500"
_NONE: Final = Body("")


class RequestOrigin(Enum):
    """What a request came from, which decides how it is answered."""

    PLAIN = auto()
    NOTES = auto()
    #: `mmi.service`: whether a service has a worker.
    MMI = auto()
    #: `titanic.request`: answered when the request is on disk.
    TITANIC = auto()


class MdpPendingRequest:
    """One request of a client, until its final reply is sent."""

    __slots__ = ("is_answered", "origin", "parts", "service", "sought", "version")

    def __init__(
        self,
        service: bytes,
        version: int,
        origin: RequestOrigin = RequestOrigin.PLAIN,
        sought: str = "",
    ) -> None:
        self.service = service
        self.version = version
        self.origin = origin
        #: The service that an MMI request asks about.
        self.sought = sought
        #: Whether a Titanic request was acknowledged.
        self.is_answered = False
        #: The results of each worker, if the request went to several.
        self.parts: list[SendReply] = []

    def reply(self, body: Parts, is_final: bool = True) -> ClientReply:
        """Make a reply. A body has at least one frame."""
        return ClientReply(self.service, body or (b"",), is_final, self.version)


class MdpReplies:
    """Encodes replies to the pending requests."""

    def __init__(self, codecs: BodyCodecs, is_silent: bool) -> None:
        self._codecs = codecs
        self._is_silent = is_silent
        self._pending: dict[JobId, dict[PeerId, MdpPendingRequest]] = {}
        self._questions: dict[tuple[PeerId, JobId, str], list[MdpPendingRequest]] = {}

    def expect(self, job: JobId, client: PeerId, pending: MdpPendingRequest) -> None:
        """Add a pending request."""
        self._pending.setdefault(job, {})[client] = pending

    def expect_status(
        self, job: JobId, client: PeerId, asked: RequestKind, pending: MdpPendingRequest
    ) -> None:
        """Add a pending question about a job."""
        self._questions.setdefault((client, job, asked), []).append(pending)

    def __len__(self) -> int:
        return len(self._pending) + len(self._questions)

    # --- jobs -------------------------------------------------------------------------------

    def reply(self, effect: SendReply, request: str) -> ClientReply | None:
        """Encode a reply about a job; None if the client gets none.

        `request` is the name of the worker's open question.
        """
        if effect.kind is ReplyKind.FINAL:
            return self._final(effect, self._close(effect))
        pending = self._pending.get(effect.job, {}).get(effect.client)
        if pending is None:
            return None
        if effect.kind is ReplyKind.PART:
            pending.parts.append(effect)
            return None
        if pending.origin is RequestOrigin.TITANIC:
            return self._stored(effect, pending)
        if pending.origin is RequestOrigin.NOTES:
            return self._report(effect, pending, request)
        is_piece = effect.kind is ReplyKind.CHUNK and pending.version == V2
        is_plain = pending.origin is RequestOrigin.PLAIN
        return pending.reply(self._piece(effect.body), False) if is_piece and is_plain else None

    def _close(self, effect: SendReply) -> MdpPendingRequest:
        """Remove a request. A refusal has no state, and ends only the refused request."""
        clients = self._pending.get(effect.job, {})
        found = clients.pop(effect.client, None)
        if effect.state is not None or not clients:
            self._pending.pop(effect.job, None)
        # Submitted to an earlier broker process: its version is unknown.
        return found or MdpPendingRequest(effect.service.encode(), V2)

    def _stored(self, effect: SendReply, pending: MdpPendingRequest) -> ClientReply | None:
        """Acknowledge a Titanic request, once. Its terms are strict, so it is on disk."""
        if pending.is_answered:
            return None
        pending.is_answered = True
        return pending.reply((OK, effect.job.encode()))

    def _report(self, effect: SendReply, pending: MdpPendingRequest, request: str) -> ClientReply:
        note: Note = {"job": effect.job, "kind": effect.kind.value, "worker": effect.worker}
        if effect.workers:
            note["workers"] = list(effect.workers)
        if effect.kind is ReplyKind.INPUT_ASKED:
            note["request"] = request or effect.job
        is_piece = effect.kind is ReplyKind.CHUNK
        data = self._chunk(effect.body) if is_piece else self._data(effect.body, "")
        return pending.reply((write_note(note), *data), is_final=False)

    def _final(self, effect: SendReply, pending: MdpPendingRequest) -> ClientReply | None:
        if pending.origin is RequestOrigin.MMI:
            return pending.reply((self._has_worker(effect, pending.sought),))
        if pending.origin is RequestOrigin.TITANIC:
            return self._titanic_end(effect, pending)
        if pending.parts:
            return self._gathered(effect, pending)
        if effect.fault is not None:
            return self._failed(effect, pending, effect.fault)
        try:
            return self._done(effect, pending, self._data(effect.body, effect.worker))
        except Unmappable as error:
            return self._failed(effect, pending, Fault(FaultCode.UNMAPPABLE, str(error)))

    def _titanic_end(self, effect: SendReply, pending: MdpPendingRequest) -> ClientReply | None:
        """Answer a Titanic request whose job ended before it was acknowledged."""
        if pending.is_answered or effect.fault is None:
            return self._stored(effect, pending)
        text = effect.fault.message or effect.fault.code.value
        return pending.reply((ERROR + b" " + text.encode(),))

    def _done(self, effect: SendReply, pending: MdpPendingRequest, data: Parts) -> ClientReply:
        if pending.origin is not RequestOrigin.NOTES:
            return pending.reply(data)
        note: Note = {"job": effect.job, "kind": "result", "worker": effect.worker}
        if effect.resources:
            note["resources"] = effect.resources
        return pending.reply((write_note(note), *data))

    def _failed(
        self, effect: SendReply, pending: MdpPendingRequest, fault: Fault
    ) -> ClientReply | None:
        if pending.origin is RequestOrigin.NOTES:
            state = effect.state or JobState.FAILED
            note = fault_note(self._with_message(effect.body, fault))
            note |= {"job": effect.job, "worker": effect.worker, "state": state}
            return pending.reply((write_note(note),))
        return None if self._is_silent else pending.reply(())

    def _with_message(self, body: Body, fault: Fault) -> Fault:
        """Return the fault with the message of the result, if it has one."""
        codec = self._codecs.get(body.dialect)
        if codec is None or fault.code is FaultCode.UNMAPPABLE:
            return fault
        try:
            own = codec.read_answer(body).fault
        except Unmappable:
            return fault
        return Fault(fault.code, own.message) if own and own.message else fault

    def _gathered(self, effect: SendReply, pending: MdpPendingRequest) -> ClientReply:
        """Encode the results of several workers as one map, by worker."""
        each = keyed_by_worker(
            (p.worker, self._part(p.body, p.fault, p.worker, p.resources)) for p in pending.parts
        )
        state = effect.state or JobState.FAILED
        note: Note = {"job": effect.job, "kind": "gathered", "state": state}
        head = (write_note(note),) if pending.origin is RequestOrigin.NOTES else ()
        return pending.reply((*head, pack(each)))

    def _part(
        self, body: Body, fault: Fault | None, worker: str, resources: tuple[str, ...]
    ) -> dict[str, object]:
        served = {"resources": list(resources), "worker": worker} if resources else {}
        if fault is None:
            try:
                answer = self._codecs[NAME].read_answer(Body(NAME, self._data(body, worker)))
                return {"value": answer.value if answer.raw is None else answer.raw, **served}
            except Unmappable as error:
                fault = Fault(FaultCode.UNMAPPABLE, str(error))
        return {"fault": fault.code.value, "message": fault.message, **served}

    def _data(self, body: Body, worker: str) -> Parts:
        if not body.dialect:
            return ()
        return convert_answer(self._codecs, body, NAME, worker).parts

    def _chunk(self, body: Body) -> Parts:
        """Return a piece of a stream, as MessagePack, so that raw bytes are unambiguous."""
        if body.dialect == NAME:
            return body.parts
        answer = self._codecs[body.dialect].read_answer(body)
        return (pack(answer.raw if answer.raw is not None else answer.value),)

    def _piece(self, body: Body) -> Parts:
        """Return a piece of a stream for a plain client: its bytes."""
        data = self._chunk(body)
        answer = self._codecs[NAME].read_answer(Body(NAME, data))
        content = answer.value if answer.raw is None else answer.raw
        return (content,) if isinstance(content, bytes) else data

    def _has_worker(self, effect: SendReply, service: str) -> bytes:
        """Answer `mmi.service` from the list of services."""
        if effect.fault is not None or not effect.body.dialect:
            return ERROR
        rows = self._codecs[effect.body.dialect].read_answer(effect.body).value or ()
        return OK if any(row["name"] == service and row["workers"] for row in rows) else NOT_FOUND

    # --- questions --------------------------------------------------------------------------

    def status(self, effect: SendStatus) -> tuple[MdpPendingRequest, ClientReply] | None:
        """Encode the status of a job for a client that asked; None if no client waits."""
        key = (effect.client, effect.job, effect.asked)
        waiting = self._questions.get(key)
        if not waiting:
            return None
        pending = waiting.pop(0)
        if not waiting:
            del self._questions[key]
        if pending.origin is RequestOrigin.TITANIC:
            return pending, pending.reply(self._titanic_status(effect))
        is_result = effect.asked is RequestKind.RESULT and effect.status is not None
        if is_result and effect.status is not None and effect.status.state in FINAL:
            return pending, pending.reply(self._ended(effect.status))
        return pending, pending.reply((write_note(_state(effect)),))

    def _titanic_status(self, effect: SendStatus) -> Parts:
        status, fault = effect.status, effect.fault
        if effect.asked is RequestKind.CANCEL:
            is_denied = fault is not None and fault.code is FaultCode.DENIED
            return (ERROR + b" denied",) if is_denied else (OK,)
        if status is None:
            return (UNKNOWN,)
        if status.state not in FINAL:
            return (PENDING,)
        part = status.parts[0] if status.parts else None
        if status.state is not JobState.SUCCEEDED or status.fault or part is None:
            ended = status.fault or Fault(FaultCode.TASK_FAILED)
            return (ERROR + b" " + (ended.message or ended.code.value).encode(),)
        try:
            return (OK, *self._data(part.body or _NONE, part.worker))
        except Unmappable as error:
            return (ERROR + b" " + str(error).encode(),)

    def _ended(self, status: JobStatus) -> Parts:
        """Encode the result of a job that has ended, by worker if it had several parts."""
        note: Note = {"job": status.job, "kind": "result", "state": status.state}
        if status.fault is not None:
            note |= fault_note(status.fault) | {"kind": "fault"}
        if len(status.parts) > 1:
            each = keyed_by_worker(
                (p.worker, self._part(p.body or _NONE, p.fault, p.worker, p.resources))
                for p in status.parts
            )
            return (write_note(note | {"kind": "gathered"}), pack(each))
        part = status.parts[0] if status.parts else None
        if part is None or status.fault is not None:
            return (write_note(note),)
        note |= {"worker": part.worker, "resources": part.resources}
        try:
            return (write_note(note), *self._data(part.body or _NONE, part.worker))
        except Unmappable as error:
            fault = Answer(fault=Fault(FaultCode.UNMAPPABLE, str(error)))
            return (write_note(note), *answer_parts(fault))


def _state(effect: SendStatus) -> Note:
    note: Note = {"job": effect.job, "kind": "status"}
    note["state"] = effect.status.state.value if effect.status is not None else "unknown"
    if effect.fault is not None:
        note |= {"code": effect.fault.code.value, "detail": effect.fault.message}
    return note
