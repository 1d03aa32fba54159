"""Replies to DCP clients: results, faults, reports, and the status of jobs.

A request stays here until it ends, with its metadata and whether its client uses notes. A client
without notes gets one reply per request and nothing else.
"""

from collections.abc import Callable
from typing import Final

from dragoman.core.effects import JobStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import BodyCodecs, convert_answer, keyed_by_worker
from dragoman.dialects.dcp.body_codec import NAME
from dragoman.dialects.dcp.notes import request_note, take_report
from dragoman.dialects.dcp.wire import Tail, data_of, metadata_of
from dragoman.dialects.notes import Note, fault_note, write_note
from dragoman.dialects.parts import answer_parts, pack
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId, PeerId


class DcpPendingRequest:
    """One request of a client, until its reply is sent."""

    __slots__ = ("metadata", "parts", "reads_notes")

    def __init__(self, metadata: tuple[bytes, ...], reads_notes: bool) -> None:
        self.metadata = metadata
        self.reads_notes = reads_notes
        #: The results of each worker, if the request went to several.
        self.parts: list[SendReply] = []


class DcpReplies:
    """Encodes replies to the pending requests."""

    def __init__(self, codecs: BodyCodecs, faults: str) -> None:
        self._codecs = codecs
        self._is_silent = faults == "silent"
        self._pending: dict[JobId, dict[PeerId, DcpPendingRequest]] = {}
        self._questions: dict[tuple[PeerId, JobId, str], list[tuple[bytes, ...]]] = {}

    def expect(self, job: JobId, client: PeerId, pending: DcpPendingRequest) -> None:
        """Add a pending request."""
        self._pending.setdefault(job, {})[client] = pending

    def follow(self, job: JobId, client: PeerId, metadata: tuple[bytes, ...]) -> None:
        """Take the metadata of a request that its worker passed on: the reply will have them.

        A client with notes finds its job by its own metadata, so it keeps them.
        """
        pending = self._pending.get(job, {}).get(client)
        if pending is not None and not pending.reads_notes:
            pending.metadata = metadata

    def is_pending(self, job: JobId, client: PeerId) -> bool:
        """Return whether a client's request has no reply yet."""
        return client in self._pending.get(job, ())

    def expect_status(self, job: JobId, client: PeerId, asked: RequestKind, tail: Tail) -> None:
        """Add a pending question about a job."""
        self._questions.setdefault((client, job, asked), []).append(metadata_of(tail))

    def __len__(self) -> int:
        return len(self._pending) + len(self._questions)

    def reply(self, effect: SendReply) -> Tail | None:
        """Encode a reply about a job; None if the client gets none."""
        if effect.kind is ReplyKind.FINAL:
            return self._final(effect, self._close(effect))
        pending = self._pending.get(effect.job, {}).get(effect.client)
        if pending is None:
            return None
        if effect.kind is ReplyKind.PART:
            pending.parts.append(effect)
            return None
        return self._report(effect, pending) if pending.reads_notes else None

    def _close(self, effect: SendReply) -> DcpPendingRequest:
        """Remove a request. A refusal has no state, and ends only the refused request."""
        clients = self._pending.get(effect.job, {})
        found = clients.pop(effect.client, None)
        if effect.state is not None or not clients:
            self._pending.pop(effect.job, None)
        if found is None:
            # Submitted to an earlier broker process. A DCP reply has the metadata itself.
            is_dcp = effect.body.dialect == NAME
            metadata = metadata_of(effect.body.parts) if is_dcp else ()
            found = DcpPendingRequest(
                metadata, bool(metadata) and request_note(metadata) is not None
            )
        return found

    def _final(self, effect: SendReply, pending: DcpPendingRequest) -> Tail | None:
        if pending.parts:
            return self._gathered(effect, pending)
        if effect.fault is None:
            try:
                data = self._data(effect.body, effect.worker)
            except Unmappable as error:
                fault = Fault(FaultCode.UNMAPPABLE, str(error))
                return self._failed(effect, pending, fault)
            note: Note = {"kind": "result", "state": effect.state, "worker": effect.worker}
            if effect.resources:
                note["resources"] = effect.resources
            head = (write_note(note),) if pending.reads_notes else ()
            return (*pending.metadata, *head, b"", *data)
        return self._failed(effect, pending, effect.fault)

    def _failed(self, effect: SendReply, pending: DcpPendingRequest, fault: Fault) -> Tail | None:
        """Encode a fault: as a note, or as the reply of the setting `faults`."""
        data = self._data_beside_fault(effect.body)
        if pending.reads_notes:
            state = effect.state or JobState.FAILED
            note = fault_note(self._with_message(effect.body, fault))
            part = write_note(note | {"worker": effect.worker, "state": state})
            return (*pending.metadata, part, b"", *data)
        return (*pending.metadata, b"", *data) if data or not self._is_silent else None

    def _data_beside_fault(self, body: Body) -> Tail:
        """Return the data that a DCP worker sent in addition to a fault."""
        if body.dialect != NAME or self._codecs[NAME].read_answer(body).fault is not None:
            return ()
        return data_of(body.parts)

    def _with_message(self, body: Body, fault: Fault) -> Fault:
        """Return the fault with the message of a result of another dialect, if it has one."""
        if body.dialect in ("", NAME) or fault.code is FaultCode.UNMAPPABLE:
            return fault
        try:
            own = self._codecs[body.dialect].read_answer(body).fault
        except (KeyError, Unmappable):
            return fault
        return Fault(fault.code, own.message) if own and own.message else fault

    def _gathered(self, effect: SendReply, pending: DcpPendingRequest) -> Tail:
        """Encode the results of several workers as one map, by worker."""
        each = keyed_by_worker(
            (p.worker, self._part(p.body, p.fault, p.worker, p.resources)) for p in pending.parts
        )
        note: Note = {"kind": "gathered", "state": effect.state or JobState.FAILED}
        head = (
            pending.metadata if not pending.reads_notes else (*pending.metadata, write_note(note))
        )
        return (*head, b"", pack(each))

    def _part(
        self, body: Body, fault: Fault | None, worker: str, resources: tuple[str, ...]
    ) -> dict[str, object]:
        served = {"resources": list(resources), "worker": worker} if resources else {}
        if fault is not None:
            return {"fault": fault.code.value, "message": fault.message, **served}
        if not body.dialect:
            return {"value": None, **served}
        try:
            converted = convert_answer(self._codecs, body, NAME, worker)
        except Unmappable as error:
            return {"fault": FaultCode.UNMAPPABLE.value, "message": str(error), **served}
        answer = self._codecs[NAME].read_answer(converted)
        return {"value": answer.value if answer.raw is None else answer.raw, **served}

    def _data(self, body: Body, worker: str) -> Tail:
        if not body.dialect:
            return ()
        return data_of(convert_answer(self._codecs, body, NAME, worker).parts)

    def _report(self, effect: SendReply, pending: DcpPendingRequest) -> Tail | None:
        note: Note = {"kind": effect.kind.value, "worker": effect.worker}
        if effect.workers:
            note["workers"] = list(effect.workers)
        if effect.kind is ReplyKind.INPUT_ASKED:
            note["request"] = _request(effect)
        if effect.kind is ReplyKind.CHUNK:
            return (*pending.metadata, write_note(note), b"", self._chunk(effect.body))
        return (*pending.metadata, write_note(note), b"", *self._data(effect.body, ""))

    def _chunk(self, body: Body) -> bytes:
        """Return a piece of a stream, as MessagePack, so that raw bytes are unambiguous."""
        if body.dialect == NAME:
            return b"".join(data_of(body.parts))
        answer = self._codecs[body.dialect].read_answer(body)
        return pack(answer.raw if answer.raw is not None else answer.value)

    def status(self, effect: SendStatus) -> Tail | None:
        """Encode the status of a job, for a client that asked."""
        key = (effect.client, effect.job, effect.asked)
        open_questions = self._questions.get(key)
        if effect.asked is RequestKind.INPUT:
            # Only refused input is answered, so no client waits for this answer.
            return (write_note({"job": effect.job}), *self._state(effect))
        if not open_questions:
            return None
        metadata = open_questions.pop(0)
        if not open_questions:
            del self._questions[key]
        return (*metadata, *_STATUS_ENCODERS[effect.asked](self, effect))

    def _state(self, effect: SendStatus) -> Tail:
        note: Note = {"kind": "status", "job": effect.job}
        if effect.status is None:
            note["state"] = "unknown"
        else:
            note["state"] = effect.status.state.value
        if effect.fault is not None:
            note |= {"code": effect.fault.code.value, "detail": effect.fault.message}
        return (write_note(note), b"")

    def _result(self, effect: SendStatus) -> Tail:
        status = effect.status
        if status is None or status.state not in FINAL:
            return self._state(effect)
        try:
            return self._ended(status)
        except Unmappable as error:
            fault = Answer(fault=Fault(FaultCode.UNMAPPABLE, str(error)))
            return (
                write_note({"kind": "result", "state": status.state}),
                b"",
                *answer_parts(fault),
            )

    def _ended(self, status: JobStatus) -> Tail:
        """Encode the result of a job that has ended, by worker if it had several parts."""
        note: Note = {"kind": "result", "state": status.state}
        if status.fault is not None:
            note |= {"code": status.fault.code.value, "message": status.fault.message}
        if len(status.parts) > 1:
            each = keyed_by_worker(
                (p.worker, self._part(p.body or _NONE, p.fault, p.worker, p.resources))
                for p in status.parts
            )
            return (write_note(note | {"gathered": True}), b"", pack(each))
        part = status.parts[0] if status.parts else None
        if part is not None:
            note["worker"] = part.worker
            note |= {"resources": part.resources} if part.resources else {}
        body = part.body if part is not None and status.fault is None else None
        return (write_note(note), b"", *self._data(body or _NONE, ""))


def _request(effect: SendReply) -> str:
    """Return the worker's name of a question; for other dialects, the job id."""
    note = take_report(effect.body.parts)[1] if effect.body.dialect == NAME else None
    request = note.get("request") if note is not None else None
    return request if isinstance(request, str) else effect.job


_NONE: Final = Body("")

_STATUS_ENCODERS: Final[dict[RequestKind, Callable[[DcpReplies, SendStatus], Tail]]] = {
    RequestKind.RESULT: DcpReplies._result,
    RequestKind.CANCEL: DcpReplies._state,
    RequestKind.INPUT: DcpReplies._state,
}
