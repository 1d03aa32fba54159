"""A client's end of NFP, for our own SDK.

Against our broker it asks for results to be pushed; against NorFab's it fetches each result when it
is announced. A job is complete when as many workers have answered as the broker announced.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.json_values import from_jsonable
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NAME, NfpBodyCodec
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
from dragoman.model.body import Body
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import EVERY_SERVICE, JobId, WorkerName
from dragoman.model.target import Named

_DRESS: Final = NfpBodyCodec()
_HELLO: Final = wire.encode(
    wire.Open(wire.CLIENT, bodies.to_json({"agent": "dragoman", "push": True}))
)
#: What the words of a broker that is not ours may be.
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
    """One job that is not over for this client."""

    __slots__ = ("answers", "service", "target", "workers")

    def __init__(self, service: str, target: bytes) -> None:
        self.service = service
        self.target = target
        self.workers: tuple[str, ...] = ()
        #: By worker and the resources it answers for.
        self.answers: dict[tuple[str, tuple[str, ...]], Answer] = {}


class NfpClientSide:
    """NFP as a client speaks it. `new_id` makes ids for subscriptions."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._jobs: dict[JobId, _OpenJob] = {}
        #: Jobs whose cancel was not answered yet; they may be another client's, or over.
        self._cancels: set[JobId] = set()
        self._subscriptions: set[str] = set()
        self._takers: dict[str, Callable[[JobId, wire.NfpReply], list[ClientNotice]]] = {
            wire.RESPONSE: self._response,
            wire.EVENT: self._event,
            wire.STREAM: self._stream,
        }
        self._statuses: dict[bytes, Callable[[JobId, _OpenJob, Any], list[ClientNotice]]] = {
            b"200": self._result,
            b"202": self._accepted,
            b"201": lambda job, waiting, said: [],
            b"300": self._standing,
            b"102": self._standing,
        }

    def hello(self) -> list[Frames]:
        """Introduce ourselves; a broker that knows no OPEN takes no notice."""
        return [_HELLO]

    def submit(self, order: Submission) -> list[Frames]:
        """Ask for work."""
        waiting = _OpenJob(order.service, write_target(order.target))
        self._jobs[order.job] = waiting
        body = _DRESS.write_call(order.call).parts[0]
        if order.priority or order.key:
            body = bodies.with_terms(body, order.priority, order.key)
        return [self._request(wire.POST, order.job, waiting, body)]

    def ask(self, job: JobId) -> list[Frames]:
        """Ask for the result of a job, also of another client's."""
        waiting = self._jobs.setdefault(job, _OpenJob(EVERY_SERVICE, b"all"))
        known = {worker for worker, _ in waiting.answers}
        missing = [name for name in waiting.workers if name not in known]
        return [self._request(wire.GET, job, waiting, b"", _names(missing))]

    def cancel(self, job: JobId) -> list[Frames]:
        """Ask for a job to stop."""
        waiting = self._jobs.get(job) or _OpenJob(EVERY_SERVICE, b"all")
        self._cancels.add(job)
        return [self._request(wire.DELETE, job, waiting, b"")]

    def give_input(self, job: JobId, request: str, answer: Any, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        waiting = self._jobs.get(job) or _OpenJob(EVERY_SERVICE, b"all")
        body = bodies.input_answer(request, answer)
        return [self._request(wire.PUT, job, waiting, body, _names([worker] if worker else []))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Ask for events, from the ledger position `after` on."""
        tag = self._new_id()
        self._subscriptions.add(tag)
        body = bodies.to_json({"topics": topics, "after": after})
        request = wire.NfpRequest(wire.GET, EVENTS.encode(), b"all", tag.encode(), body)
        return [wire.encode(request)]

    def forget(self, job: JobId) -> None:
        """Stop waiting for a job whose caller has given up."""
        self._jobs.pop(job, None)
        self._cancels.discard(job)

    def _request(
        self,
        command: str,
        job: JobId,
        waiting: _OpenJob,
        body: bytes,
        target: bytes = b"",
    ) -> Frames:
        service = waiting.service.encode()
        whom = target or waiting.target
        return wire.encode(wire.NfpRequest(command, service, whom, job.encode(), body))

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Take one message in; what cannot be read is ignored."""
        try:
            message = wire.decode(frames)
            if not isinstance(message, wire.NfpReply):
                return []
            take = self._takers.get(message.command)
            return take(JobId(message.uuid.decode()), message) if take else []
        except (MalformedMessage, *_UNREADABLE):
            return []

    def _response(self, job: JobId, message: wire.NfpReply) -> list[ClientNotice]:
        waiting = self._jobs.get(job)
        said = _json(message.body)
        status = message.status[:3]
        if isinstance(said, dict) and said.get("command") == wire.DELETE:
            self._cancels.discard(job)
            return [StatusNotice(job, str(said.get("state", "")), str(said.get("status", "")))]
        if waiting is None:
            return self._nothing_to_cancel(job, said)
        take = self._statuses.get(status)
        return take(job, waiting, said) if take else self._failed(job, status, said)

    def _nothing_to_cancel(self, job: JobId, said: Any) -> list[ClientNotice]:
        if job not in self._cancels or not isinstance(said, dict):
            return []
        self._cancels.discard(job)
        return [StatusNotice(job, "unknown", str(said.get("error") or said.get("status", "")))]

    def _accepted(self, job: JobId, waiting: _OpenJob, said: Any) -> list[ClientNotice]:
        names = said.get("workers") if isinstance(said, dict) else None
        if not names:
            return [Queued(job)]
        if len(waiting.workers) >= len(names):
            # The answer to a GET begins with a 202 of its own. A part that follows its resources
            # to several workers makes more of them.
            return []
        waiting.workers = tuple(map(str, names))
        return [Dispatched(job, tuple(map(WorkerName, waiting.workers)))]

    def _result(self, job: JobId, waiting: _OpenJob, said: Any) -> list[ClientNotice]:
        if waiting.service in (MANAGEMENT, INVENTORY):
            # The broker speaks for itself: its answer is the value, not an object by worker.
            del self._jobs[job]
            return [Finished(job, (Answer(from_jsonable(said)),), state=JobState.SUCCEEDED)]
        if isinstance(said, dict):
            found = [_answer(w, result) for w, result in said.items()]
            # One worker may have several parts of a job, each for other resources.
            waiting.answers |= {(a.worker, a.resources): a for a in found}
        if len(waiting.answers) < max(1, len(waiting.workers)):
            return []
        del self._jobs[job]
        answers = tuple(waiting.answers.values())
        is_failed = any(answer.fault for answer in answers)
        return [Finished(job, answers, state=JobState.FAILED if is_failed else JobState.SUCCEEDED)]

    def _standing(self, job: JobId, waiting: _OpenJob, said: Any) -> list[ClientNotice]:
        word = str(said.get("status", "")) if isinstance(said, dict) else ""
        state = JobState.QUEUED if word == "PENDING" else JobState.RUNNING
        return [StatusNotice(job, state.value, word)]

    def _failed(self, job: JobId, status: bytes, said: Any) -> list[ClientNotice]:
        if status[:1] not in (b"4", b"5"):
            return []
        del self._jobs[job]
        about = said if isinstance(said, dict) else {}
        code = code_of(status, about.get("code"))
        words = about.get("error") or "; ".join(map(str, about.get("errors") or ()))
        fault = Fault(code, str(words or about.get("status") or ""))
        return [Finished(job, fault=fault, state=_ENDS.get(code, JobState.FAILED))]

    def _event(self, job: JobId, message: wire.NfpReply) -> list[ClientNotice]:
        if job in self._subscriptions:
            return [_published(message.body)]
        waiting = self._jobs.get(job)
        if waiting is None:
            return []
        head, said = bodies.read_event(message.body), _json(message.body)
        worker = str(said.get("worker", "")) if isinstance(said, dict) else ""
        if head.event_type == "result_ready":
            target = _names([worker] if worker else [])
            return [SendNow(self._request(wire.GET, job, waiting, b"", target))]
        if head.event_type == "input_request" and head.input_request is not None:
            asked = head.input_request
            return [InputAsked(job, asked.id, from_jsonable(asked.question), worker)]
        return [Progress(job, _report(said), worker)]

    def _stream(self, job: JobId, message: wire.NfpReply) -> list[ClientNotice]:
        return [Chunk(job, message.body)] if job in self._jobs else []


def _json(body: bytes) -> Any:
    return msgspec.json.decode(body) if body else None


def _names(names: list[str]) -> bytes:
    return write_target(Named(tuple(map(WorkerName, names)))) if names else b""


def _answer(worker: str, result: Any) -> Answer:
    answer = _DRESS.read_answer(Body(NAME, (bodies.to_json({worker: result}),)))
    return replace(answer, worker=worker)


def _report(said: Any) -> Any:
    """Return what a worker reported: its own value where our dress made the event."""
    extras = said.get("extras") if isinstance(said, dict) else None
    if isinstance(extras, dict) and "event" in extras:
        return from_jsonable(extras["event"])
    return said


def _published(body: bytes) -> Published:
    said = _json(body)
    return Published(int(said["seq"]), str(said["topic"]), from_jsonable(said["event"]))
