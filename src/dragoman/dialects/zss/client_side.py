"""A client's end of ZSS, for the SDK.

The request id is the job's id. The address says that this client reads parts: Dragoman's broker
then sends progress. Upstream's broker ignores it and sends the one reply.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
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
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import ZssBodyCodec, call_message
from dragoman.dialects.zss.statuses import read_fault
from dragoman.dialects.zss.wire import (
    PRT,
    REP,
    REQ,
    ZssMessage,
    body_of,
    decode,
    encode,
    read_address,
    read_names,
    status_code,
    write_address,
)
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName

_STATES: Final = {
    FaultCode.CANCELLED: JobState.CANCELLED,
    FaultCode.CANCEL_UNCONFIRMED: JobState.CANCELLED,
    FaultCode.EXHAUSTED: JobState.DEAD,
    FaultCode.QUEUE_TIMEOUT: JobState.EXPIRED,
    FaultCode.RUN_TIMEOUT: JobState.EXPIRED,
    FaultCode.JOB_TIMEOUT: JobState.EXPIRED,
}
_RESULT: Final = "result:"
_CANCEL: Final = "cancel:"


class ZssClientSide:
    """One client: writes its requests, reads its replies."""

    def __init__(self) -> None:
        self._codec = ZssBodyCodec()

    def hello(self) -> list[Frames]:
        """Return no message: ZSS clients have no greeting."""
        return []

    def submit(self, submission: Submission) -> list[Frames]:
        """Write a request. The same job id again is the same job."""
        if submission.key:
            raise Unsupported("ZSS has no idempotency keys: use the same job id instead")
        extra: dict[str, object] = {"job": submission.job, "partial": True}
        if submission.priority:
            extra["priority"] = submission.priority
        if submission.options:
            extra["options"] = submission.options
        if str(submission.target) != "any":
            extra["target"] = str(submission.target)
        sid, rid = submission.service.upper(), submission.job.encode()
        return [encode(call_message(submission.call, sid, rid, **extra))]

    def ask(self, job: JobId) -> list[Frames]:
        """Ask for the result of a job."""
        return [self._question("RESULT", _RESULT, job)]

    def cancel(self, job: JobId) -> list[Frames]:
        """Ask for a job to stop."""
        return [self._question("CANCEL", _CANCEL, job)]

    def _question(self, verb: str, prefix: str, job: JobId) -> Frames:
        address, payload = write_address("TITANIC", verb), oldpack.encode(str(job))
        return encode(ZssMessage(REQ, (prefix + job).encode(), address, payload=payload))

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question with a further part of the request."""
        address = write_address("", "", job=job, request=request, worker=worker)
        payload = oldpack.encode(answer)
        return [encode(ZssMessage(PRT, job.encode(), address, status=b"206", payload=payload))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Refuse: ZSS has no events."""
        raise Unsupported("ZSS has no events: follow them over NFP or HTTP")

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Read one message. Unreadable messages and other types are ignored."""
        try:
            m = decode(frames)
            rid = m.rid.decode()
        except (MalformedMessage, UnicodeDecodeError):
            return []
        if m.kind == PRT:
            read = _PARTS.get(m.status, ZssClientSide._no_input)
            return read(self, JobId(rid), m)
        if m.kind != REP:
            return []
        if rid.startswith(_RESULT):
            return self._result(JobId(rid.removeprefix(_RESULT)), m)
        if rid.startswith(_CANCEL):
            return [self._cancel_status(JobId(rid.removeprefix(_CANCEL)), m)]
        return [self._finished(JobId(rid), m)]

    # --- replies ------------------------------------------------------------------------------

    def _finished(self, job: JobId, m: ZssMessage) -> Finished:
        if m.status == b"207":
            return self._all_results(job, m)
        answer = replace(self._answer(m), worker=_extra(m, "worker"), resources=_resources(m))
        if answer.fault is None:
            return Finished(job, (answer,), state=JobState.SUCCEEDED)
        state = _STATES.get(answer.fault.code, JobState.FAILED)
        return Finished(job, (answer,), answer.fault, state)

    def _answer(self, m: ZssMessage) -> Answer:
        try:
            return self._codec.read_answer(body_of(m))
        except Unmappable as error:
            return Answer(fault=Fault(FaultCode.UNMAPPABLE, str(error)))

    def _all_results(self, job: JobId, m: ZssMessage) -> Finished:
        content = _value(m)
        answers = tuple(_part(str(worker), part) for worker, part in _items(content))
        fault = next((a.fault for a in answers if a.fault is not None), None)
        state = JobState.SUCCEEDED if fault is None else JobState.FAILED
        return Finished(job, answers, fault, state)

    def _result(self, job: JobId, m: ZssMessage) -> list[ClientNotice]:
        content = _value(m)
        if m.status == b"202":
            return [StatusNotice(job, _text(content, "state"))]
        if m.status == b"404" and _text(content, "fault") == FaultCode.UNKNOWN_JOB:
            return [StatusNotice(job, "unknown", _text(content, "developerMessage"))]
        return [self._finished(job, m)]

    def _cancel_status(self, job: JobId, m: ZssMessage) -> StatusNotice:
        content = _value(m)
        if m.status == b"200":
            return StatusNotice(job, _text(content, "state"), _text(content, "detail"))
        detail, code = _text(content, "developerMessage"), _text(content, "fault")
        return StatusNotice(job, "unknown", detail, code)

    # --- parts --------------------------------------------------------------------------------

    def _dispatch_state(self, job: JobId, m: ZssMessage) -> list[ClientNotice]:
        content = _value(m)
        if _text(content, "state") != "dispatched":
            return [Queued(job)]
        names = content.get("workers") if isinstance(content, dict) else None
        listed = names if isinstance(names, list) else []
        return [Dispatched(job, tuple(WorkerName(str(n)) for n in listed))]

    def _progress(self, job: JobId, m: ZssMessage) -> list[ClientNotice]:
        return [Progress(job, _value(m), _extra(m, "worker"))]

    def _chunk(self, job: JobId, m: ZssMessage) -> list[ClientNotice]:
        content = _value(m)
        data = content if isinstance(content, bytes) else m.payload
        return [Chunk(job, data, _extra(m, "worker"))]

    def _input_asked(self, job: JobId, m: ZssMessage) -> list[ClientNotice]:
        return [InputAsked(job, _extra(m, "request"), _value(m), _extra(m, "worker"))]

    def _no_input(self, job: JobId, m: ZssMessage) -> list[ClientNotice]:
        return [StatusNotice(job, "unknown", _text(_value(m), "developerMessage"))]


def _value(m: ZssMessage) -> object:
    try:
        return oldpack.decode(m.payload) if m.payload else None
    except ValueError:
        return None


def _items(content: object) -> list[tuple[object, object]]:
    return list(content.items()) if isinstance(content, dict) else []


def _text(content: object, name: str) -> str:
    found = content.get(name) if isinstance(content, dict) else None
    return found if isinstance(found, str) else ""


def _extra(m: ZssMessage, name: str) -> str:
    try:
        return _text(dict(read_address(m.address).extra), name)
    except MalformedMessage:
        return ""


def _resources(m: ZssMessage) -> tuple[str, ...]:
    try:
        return read_names(read_address(m.address).extra.get("resources"))
    except MalformedMessage:
        return ()


def _part(worker: str, content: object) -> Answer:
    status = content.get("status") if isinstance(content, dict) else None
    if not isinstance(status, int) or not isinstance(content, dict):
        return Answer(content, worker=worker)
    payload, resources = content.get("payload"), read_names(content.get("resources"))
    worker = _text(content, "worker") or worker
    if not 200 <= status < 300:
        fault = read_fault(status_code(b"%d" % abs(status)), payload)
        return Answer(fault=fault, worker=worker, resources=resources)
    is_raw = isinstance(payload, bytes)
    raw = payload if is_raw else None
    return Answer(None if is_raw else payload, raw, worker=worker, resources=resources)


_PARTS: Final[dict[bytes, Callable[[ZssClientSide, JobId, ZssMessage], list[ClientNotice]]]] = {
    b"202": ZssClientSide._dispatch_state,
    b"102": ZssClientSide._progress,
    b"206": ZssClientSide._chunk,
    b"100": ZssClientSide._input_asked,
}
