"""A client's end of NFP, for our own SDK.

It asks our broker to push results. From NorFab's broker it fetches each result once announced.
A job is complete when as many workers have answered as the broker announced.
"""

from collections.abc import Callable
from typing import Any, Final, TypeGuard

import msgspec

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.json_values import from_jsonable
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NfpBodyCodec, read_result
from dragoman.dialects.nfp.contents import error_text
from dragoman.dialects.nfp.faults import code_of
from dragoman.dialects.nfp.settings import EVENTS, INVENTORY, MANAGEMENT
from dragoman.dialects.nfp.targets import write_target
from dragoman.dialects.peer_sides import (
    Chunk,
    ClientNotice,
    Dispatched,
    Finished,
    InputAsked,
    Progress,
    Published,
    Queued,
    SendNow,
    StatusNotice,
    Submission,
)
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import EVERY_SERVICE, JobId, WorkerName
from dragoman.model.target import Named

_CODEC: Final = NfpBodyCodec()
_HELLO: Final = wire.encode(
    wire.Open(wire.CLIENT, bodies.to_json({"agent": "dragoman", "push": True}))
)
#: What decoding a message of another broker may raise.
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RecursionError,
)
_ENDS: Final = {
    FaultCode.CANCELLED: JobState.CANCELLED,
    FaultCode.CANCEL_UNCONFIRMED: JobState.CANCELLED,
    FaultCode.QUEUE_TIMEOUT: JobState.EXPIRED,
    FaultCode.RUN_TIMEOUT: JobState.EXPIRED,
    FaultCode.JOB_TIMEOUT: JobState.EXPIRED,
    FaultCode.EXHAUSTED: JobState.DEAD,
}


class _OpenJob:
    """One job that has not ended for this client."""

    __slots__ = ("answers", "service", "target", "workers")

    def __init__(self, service: str, target: bytes) -> None:
        self.service = service
        self.target = target
        self.workers: tuple[str, ...] = ()
        #: By worker and the resources it answers for.
        self.answers: dict[tuple[str, tuple[str, ...]], Answer] = {}

    @property
    def next_worker(self) -> str:
        """The worker of an answer that names none: the first one without an answer."""
        known = {worker for worker, _ in self.answers}
        return next((name for name in self.workers if name not in known), "")


class NfpClientSide:
    """The client side of NFP. `new_id` makes ids for subscriptions."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._jobs: dict[JobId, _OpenJob] = {}
        #: Jobs whose cancel is unanswered. They may belong to another client, or have ended.
        self._cancels: set[JobId] = set()
        self._subscriptions: set[str] = set()
        self._handlers: dict[str, Callable[[JobId, wire.NfpReply], list[ClientNotice]]] = {
            wire.RESPONSE: self._response,
            wire.EVENT: self._event,
            wire.STREAM: self._stream,
        }
        self._statuses: dict[bytes, Callable[[JobId, _OpenJob, object], list[ClientNotice]]] = {
            b"200": self._result,
            b"202": self._accepted,
            b"201": lambda job, open_job, content: [],
            b"300": self._status,
            b"102": self._status,
        }

    def hello(self) -> list[Frames]:
        """Declare ourselves. A broker without OPEN ignores it."""
        return [_HELLO]

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job."""
        open_job = _OpenJob(submission.service, write_target(submission.target))
        self._jobs[submission.job] = open_job
        body = _CODEC.write_call(submission.call).parts[0]
        if submission.priority or submission.key or submission.options:
            s = submission
            body = bodies.with_terms(body, s.priority, s.key, s.options)
        return [self._request(wire.POST, submission.job, open_job, body)]

    def ask(self, job: JobId) -> list[Frames]:
        """Request the result of a job, also of another client's."""
        open_job = self._jobs.setdefault(job, _OpenJob(EVERY_SERVICE, b"all"))
        known = {worker for worker, _ in open_job.answers}
        missing = [name for name in open_job.workers if name not in known]
        return [self._request(wire.GET, job, open_job, b"", _names(missing))]

    def cancel(self, job: JobId) -> list[Frames]:
        """Request that a job stops."""
        open_job = self._jobs.get(job) or _OpenJob(EVERY_SERVICE, b"all")
        self._cancels.add(job)
        return [self._request(wire.DELETE, job, open_job, b"")]

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        open_job = self._jobs.get(job) or _OpenJob(EVERY_SERVICE, b"all")
        body = bodies.input_answer(request, answer)
        return [self._request(wire.PUT, job, open_job, body, _names([worker] if worker else []))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Subscribe to events after the ledger position `after`."""
        tag = self._new_id()
        self._subscriptions.add(tag)
        body = bodies.to_json({"topics": topics, "after": after})
        request = wire.NfpRequest(wire.GET, EVENTS.encode(), b"all", tag.encode(), body)
        return [wire.encode(request)]

    def forget(self, job: JobId) -> None:
        """Forget a job whose caller has given up."""
        self._jobs.pop(job, None)
        self._cancels.discard(job)

    def _request(
        self,
        command: str,
        job: JobId,
        open_job: _OpenJob,
        body: bytes,
        target: bytes = b"",
    ) -> Frames:
        service = open_job.service.encode()
        target_frame = target or open_job.target
        return wire.encode(wire.NfpRequest(command, service, target_frame, job.encode(), body))

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Decode one message. Unreadable messages are ignored."""
        try:
            message = wire.decode(frames)
            if not isinstance(message, wire.NfpReply):
                return []
            handle = self._handlers.get(message.command)
            return handle(JobId(message.uuid.decode()), message) if handle else []
        except (MalformedMessage, *_UNREADABLE):
            return []

    def _response(self, job: JobId, message: wire.NfpReply) -> list[ClientNotice]:
        open_job = self._jobs.get(job)
        status = message.status[:3]
        try:
            content = _json(message.body)
        except _UNREADABLE:
            return self._opaque(job, status, message)
        if isinstance(content, dict) and content.get("command") == wire.DELETE:
            self._cancels.discard(job)
            return [
                StatusNotice(job, str(content.get("state", "")), str(content.get("status", "")))
            ]
        if open_job is None:
            return self._nothing_to_cancel(job, content)
        handle = self._statuses.get(status)
        return handle(job, open_job, content) if handle else self._failed(job, status, content)

    def _nothing_to_cancel(self, job: JobId, content: object) -> list[ClientNotice]:
        if job not in self._cancels or not isinstance(content, dict):
            return []
        self._cancels.discard(job)
        return [
            StatusNotice(job, "unknown", str(content.get("error") or content.get("status", "")))
        ]

    def _accepted(self, job: JobId, open_job: _OpenJob, content: object) -> list[ClientNotice]:
        names = content.get("workers") if isinstance(content, dict) else None
        if not names:
            return [Queued(job)]
        if len(open_job.workers) >= len(names):
            # The answer to a GET begins with a 202, too. Only a part that follows its resources to
            # several workers adds names.
            return []
        open_job.workers = tuple(map(str, names))
        return [Dispatched(job, tuple(map(WorkerName, open_job.workers)))]

    def _result(self, job: JobId, open_job: _OpenJob, content: object) -> list[ClientNotice]:
        if open_job.service in (MANAGEMENT, INVENTORY):
            # A management answer is the value itself, not an object by worker.
            del self._jobs[job]
            return [Finished(job, (Answer(from_jsonable(content)),), state=JobState.SUCCEEDED)]
        if _is_norfabs(content):
            found = [read_result(worker, result) for worker, result in content.items()]
        else:
            found = [Answer(from_jsonable(content), worker=open_job.next_worker)]
        return self._answered(job, open_job, found)

    def _opaque(self, job: JobId, status: bytes, message: wire.NfpReply) -> list[ClientNotice]:
        """Take a body that is not JSON, of a worker that is neither ours nor NorFab's."""
        open_job = self._jobs.get(job)
        if open_job is None:
            return []
        if status != b"200":
            return self._failed(job, status, {"error": error_text((message.body,), status)})
        answer = Answer(raw=message.body, worker=open_job.next_worker)
        return self._answered(job, open_job, [answer])

    def _answered(self, job: JobId, open_job: _OpenJob, found: list[Answer]) -> list[ClientNotice]:
        # One worker may have several parts of a job, each for other resources.
        open_job.answers |= {(a.worker, a.resources): a for a in found}
        if len(open_job.answers) < max(1, len(open_job.workers)):
            return []
        del self._jobs[job]
        answers = tuple(open_job.answers.values())
        is_failed = any(answer.fault for answer in answers)
        return [Finished(job, answers, state=JobState.FAILED if is_failed else JobState.SUCCEEDED)]

    def _status(self, job: JobId, open_job: _OpenJob, content: object) -> list[ClientNotice]:
        text = str(content.get("status", "")) if isinstance(content, dict) else ""
        state = JobState.QUEUED if text == "PENDING" else JobState.RUNNING
        return [StatusNotice(job, state.value, text)]

    def _failed(self, job: JobId, status: bytes, content: object) -> list[ClientNotice]:
        if status[:1] not in (b"4", b"5"):
            return []
        del self._jobs[job]
        about = content if isinstance(content, dict) else {}
        code = code_of(status, about.get("code"))
        text = about.get("error") or "; ".join(map(str, about.get("errors") or ()))
        fault = Fault(code, str(text or about.get("status") or ""))
        return [Finished(job, fault=fault, state=_ENDS.get(code, JobState.FAILED))]

    def _event(self, job: JobId, message: wire.NfpReply) -> list[ClientNotice]:
        if job in self._subscriptions:
            return [_published(message.body)]
        open_job = self._jobs.get(job)
        if open_job is None:
            return []
        head, content = bodies.read_event(message.body), _json(message.body)
        worker = str(content.get("worker", "")) if isinstance(content, dict) else ""
        if head.event_type == "result_ready":
            target = _names([worker] if worker else [])
            return [SendNow(self._request(wire.GET, job, open_job, b"", target))]
        if head.event_type == "input_request" and head.input_request is not None:
            asked = head.input_request
            return [InputAsked(job, asked.id, from_jsonable(asked.question), worker)]
        return [Progress(job, _report(content), worker)]

    def _stream(self, job: JobId, message: wire.NfpReply) -> list[ClientNotice]:
        return [Chunk(job, message.body)] if job in self._jobs else []


def _is_norfabs(content: object) -> TypeGuard[dict[str, dict[str, object]]]:
    """Return whether a result is keyed by worker, with NorFab's result objects."""
    if not isinstance(content, dict) or not content:
        return False
    return all(isinstance(each, dict) and "result" in each for each in content.values())


def _json(body: bytes) -> Any:
    return msgspec.json.decode(body) if body else None


def _names(names: list[str]) -> bytes:
    return write_target(Named(tuple(map(WorkerName, names)))) if names else b""


def _report(content: object) -> object:
    """Return the reported value, if our worker or broker made the event, else the event."""
    extras = content.get("extras") if isinstance(content, dict) else None
    if isinstance(extras, dict) and "event" in extras:
        return from_jsonable(extras["event"])
    return content


def _published(body: bytes) -> Published:
    content = _json(body)
    return Published(int(content["seq"]), str(content["topic"]), from_jsonable(content["event"]))
