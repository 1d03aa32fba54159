"""What goes back to DCP clients: results, faults, reports, and answers to questions about jobs.

Kept per request until it ends: the metadata the client wants to see again, and whether it reads
notes. A client that does not read them gets one reply per request and nothing else.
"""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.effects import JobStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import BodyCodecs, convert_answer, keyed_by_worker
from dragoman.dialects.dcp.body_codec import NAME, answer_parts, pack
from dragoman.dialects.dcp.notes import Note, fault_note, request_note, take_report, write_note
from dragoman.dialects.dcp.wire import Tail, data_of, metadata_of
from dragoman.model.body import Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId, PeerId


class DcpPendingRequest:
    """One request of a client, until its reply has gone."""

    __slots__ = ("metadata", "parts", "reads_notes")

    def __init__(self, metadata: tuple[bytes, ...], reads_notes: bool) -> None:
        self.metadata = metadata
        self.reads_notes = reads_notes
        #: What came back from each worker of a request that went to several.
        self.parts: list[SendReply] = []


class DcpReplies:
    """The requests that wait for a reply, and how replies to them are written."""

    def __init__(self, codecs: BodyCodecs, faults: str) -> None:
        self._codecs = codecs
        self._is_silent = faults == "silent"
        self._asking: dict[JobId, dict[PeerId, DcpPendingRequest]] = {}
        self._questions: dict[tuple[PeerId, JobId, str], list[tuple[bytes, ...]]] = {}

    def expect(self, job: JobId, client: PeerId, asking: DcpPendingRequest) -> None:
        """Remember who asked, for when the reply comes."""
        self._asking.setdefault(job, {})[client] = asking

    def expect_status(self, job: JobId, client: PeerId, asked: RequestKind, tail: Tail) -> None:
        """Remember who wants to know how a job stands."""
        self._questions.setdefault((client, job, asked), []).append(metadata_of(tail))

    def __len__(self) -> int:
        return len(self._asking) + len(self._questions)

    def reply(self, effect: SendReply) -> Tail | None:
        """Write what a client is told about its job; None when it is told nothing."""
        if effect.kind is ReplyKind.FINAL:
            return self._final(effect, self._close(effect))
        asking = self._asking.get(effect.job, {}).get(effect.client)
        if asking is None:
            return None
        if effect.kind is ReplyKind.PART:
            asking.parts.append(effect)
            return None
        return self._report(effect, asking) if asking.reads_notes else None

    def _close(self, effect: SendReply) -> DcpPendingRequest:
        """Let go of a request. A refusal, which has no state, ends only what was refused."""
        clients = self._asking.get(effect.job, {})
        found = clients.pop(effect.client, None)
        if effect.state is not None or not clients:
            self._asking.pop(effect.job, None)
        if found is None:
            # Asked of an earlier broker process; the reply itself has the metadata, if it is DCP.
            is_dcp = effect.body.dialect == NAME
            metadata = metadata_of(effect.body.parts) if is_dcp else ()
            found = DcpPendingRequest(
                metadata, bool(metadata) and request_note(metadata) is not None
            )
        return found

    def _final(self, effect: SendReply, asking: DcpPendingRequest) -> Tail | None:
        if asking.parts:
            return self._gathered(effect, asking)
        if effect.fault is None:
            try:
                data = self._data(effect.body, effect.worker)
            except Unmappable as trouble:
                fault = Fault(FaultCode.UNMAPPABLE, str(trouble))
                return self._failed(effect, asking, fault)
            note: Note = {"kind": "result", "state": effect.state, "worker": effect.worker}
            if effect.resources:
                note["resources"] = effect.resources
            head = (write_note(note),) if asking.reads_notes else ()
            return (*asking.metadata, *head, b"", *data)
        return self._failed(effect, asking, effect.fault)

    def _failed(self, effect: SendReply, asking: DcpPendingRequest, fault: Fault) -> Tail | None:
        """Say that a job came to nothing, to those who can hear it."""
        data = self._beside(effect.body)
        if asking.reads_notes:
            state = effect.state or JobState.FAILED
            said = fault_note(self._in_words(effect.body, fault))
            note = write_note(said | {"worker": effect.worker, "state": state})
            return (*asking.metadata, note, b"", *data)
        return (*asking.metadata, b"", *data) if data or not self._is_silent else None

    def _beside(self, body: Body) -> Tail:
        """Return what a worker said beside its failure, where it said more than that in DCP."""
        if body.dialect != NAME or self._codecs[NAME].read_answer(body).fault is not None:
            return ()
        return data_of(body.parts)

    def _in_words(self, body: Body, fault: Fault) -> Fault:
        """Take the words of a failure from a result of another dialect, if it has some."""
        if body.dialect in ("", NAME) or fault.code is FaultCode.UNMAPPABLE:
            return fault
        try:
            said = self._codecs[body.dialect].read_answer(body).fault
        except (KeyError, Unmappable):
            return fault
        return Fault(fault.code, said.message) if said and said.message else fault

    def _gathered(self, effect: SendReply, asking: DcpPendingRequest) -> Tail:
        """Write the results of several workers as one map, by worker."""
        each = keyed_by_worker(
            (p.worker, self._part(p.body, p.fault, p.worker, p.resources)) for p in asking.parts
        )
        note: Note = {"kind": "gathered", "state": effect.state or JobState.FAILED}
        head = asking.metadata if not asking.reads_notes else (*asking.metadata, write_note(note))
        return (*head, b"", pack(each))

    def _part(
        self, body: Body, fault: Fault | None, worker: str, resources: tuple[str, ...]
    ) -> dict[str, Any]:
        served = {"resources": list(resources), "worker": worker} if resources else {}
        if fault is not None:
            return {"fault": fault.code.value, "message": fault.message, **served}
        if not body.dialect:
            return {"value": None, **served}
        try:
            dressed = convert_answer(self._codecs, body, NAME, worker)
        except Unmappable as trouble:
            return {"fault": FaultCode.UNMAPPABLE.value, "message": str(trouble), **served}
        answer = self._codecs[NAME].read_answer(dressed)
        return {"value": answer.value if answer.raw is None else answer.raw, **served}

    def _data(self, body: Body, worker: str) -> Tail:
        if not body.dialect:
            return ()
        return data_of(convert_answer(self._codecs, body, NAME, worker).parts)

    def _report(self, effect: SendReply, asking: DcpPendingRequest) -> Tail | None:
        note: Note = {"kind": effect.kind.value, "worker": effect.worker}
        if effect.workers:
            note["workers"] = list(effect.workers)
        if effect.kind is ReplyKind.INPUT_ASKED:
            note["request"] = _request(effect)
        if effect.kind is ReplyKind.CHUNK:
            return (*asking.metadata, write_note(note), b"", self._chunk(effect.body))
        return (*asking.metadata, write_note(note), b"", *self._data(effect.body, ""))

    def _chunk(self, body: Body) -> bytes:
        """Return a piece of a stream, in MessagePack so that no bytes are mistaken for some."""
        if body.dialect == NAME:
            return b"".join(data_of(body.parts))
        answer = self._codecs[body.dialect].read_answer(body)
        return pack(answer.raw if answer.raw is not None else answer.value)

    def status(self, effect: SendStatus) -> Tail | None:
        """Write how a job stands, for a client that asked."""
        key = (effect.client, effect.job, effect.asked)
        waiting = self._questions.get(key)
        if effect.asked is RequestKind.INPUT:
            # Only input that was of no use is answered, so nobody is kept waiting for it.
            return (write_note({"job": effect.job}), *self._standing(effect))
        if not waiting:
            return None
        metadata = waiting.pop(0)
        if not waiting:
            del self._questions[key]
        return (*metadata, *_STANDINGS[effect.asked](self, effect))

    def _standing(self, effect: SendStatus) -> Tail:
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
            return self._standing(effect)
        try:
            return self._ended(status)
        except Unmappable as trouble:
            fault = Answer(fault=Fault(FaultCode.UNMAPPABLE, str(trouble)))
            return (
                write_note({"kind": "result", "state": status.state}),
                b"",
                *answer_parts(fault),
            )

    def _ended(self, status: JobStatus) -> Tail:
        """Write the result of a job that has ended: by worker if it had several parts."""
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
    """Name a question as its worker did; one from another dialect goes by its job."""
    note = take_report(effect.body.parts)[1] if effect.body.dialect == NAME else None
    request = note.get("request") if note is not None else None
    return request if isinstance(request, str) else effect.job


_NONE: Final = Body("")

_STANDINGS: Final[dict[RequestKind, Callable[[DcpReplies, SendStatus], Tail]]] = {
    RequestKind.RESULT: DcpReplies._result,
    RequestKind.CANCEL: DcpReplies._standing,
    RequestKind.INPUT: DcpReplies._standing,
}
