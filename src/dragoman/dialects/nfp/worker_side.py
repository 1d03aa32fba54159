"""A worker's end of NFP, for our own SDK.

Results are pushed. NorFab's broker forwards them to its clients, which also wait for an
announcement. So an announcement follows, unless the broker is ours. Results are kept for a while,
for a GET, a second POST of the same job, or a lost connection.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from dragoman.dialects.base import Frames, MalformedMessage, check_result_size
from dragoman.dialects.json_values import from_jsonable
from dragoman.dialects.nfp import bodies, wire
from dragoman.dialects.nfp.body_codec import NAME, NfpBodyCodec, result_object, write
from dragoman.dialects.nfp.peers import Bounded
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
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId

_CODEC: Final = NfpBodyCodec()
#: NorFab's interval. Our broker may request a shorter one.
BEAT_EVERY: Final = 2.5


class _RunningJob:
    """One job that this worker runs."""

    __slots__ = ("attempt", "client", "is_taken", "question", "resources", "task")

    def __init__(
        self, client: bytes, attempt: bytes, task: str, resources: tuple[str, ...] = ()
    ) -> None:
        self.resources = resources
        self.client = client
        self.attempt = attempt
        self.task = task
        self.is_taken = False
        #: The open question, for the body of a 102.
        self.question: dict[str, object] = {}


class NfpWorkerSide:
    """The worker side of NFP. A ticket is the job's id."""

    beat_every = BEAT_EVERY
    hold: float | None = 15.0

    def __init__(
        self,
        name: str,
        service: str,
        *,
        credit: int | None = None,
        can_cancel: bool = True,
        labels: Mapping[str, str] | None = None,
        resources: tuple[str, ...] = (),
        results_kept: int = 1000,
        stamp: Callable[[], str] | None = None,
    ) -> None:
        self.name = name
        self.service = service
        self._declared: dict[str, object] = {
            "agent": "dragoman",
            "can_cancel": can_cancel,
            "attempts": True,
            "credit": credit,
            "labels": dict(labels or {}),
            "resources": resources,
        }
        #: Returns the time stamp of an event. Without it events have none.
        self._stamp = stamp or (lambda: "")
        #: Whether the broker has sent KEEPALIVE or a job since READY: NFP has no other answer.
        self.is_joined = False
        #: Whether the broker declared itself as ours.
        self._is_ours = False
        self._held: dict[str, _RunningJob] = {}
        self._results: Bounded[str, tuple[bytes, bytes]] = Bounded(results_kept)
        #: The attempts of kept results that say that the task failed.
        self._failed: Bounded[str, bytes] = Bounded(results_kept)
        self._handlers: dict[str, Callable[[wire.NfpTask, str], list[WorkerNotice]]] = {
            wire.POST: self._post,
            wire.GET: self._get,
            wire.DELETE: self._delete,
            wire.PUT: self._put,
        }

    @property
    def can_give_back(self) -> bool:
        """Whether the broker gives a returned job to another worker. NorFab's fails it."""
        return self._is_ours

    @property
    def result_confirms(self) -> bool:
        """Whether a result may come without a 201 before it."""
        return self._is_ours

    # --- registration ---------------------------------------------------------------------------

    def join(self) -> list[Frames]:
        """Declare ourselves, with the jobs that we hold or have results of, and register."""
        self._is_ours = self.is_joined = False
        declared = self._declared | {"holds": [*self._held, *self._results]}
        return [
            wire.encode(wire.Open(wire.WORKER, bodies.to_json(declared))),
            wire.encode(wire.NfpReady(self.service.encode())),
        ]

    def beat(self) -> list[Frames]:
        """Send a heartbeat."""
        return [wire.encode(wire.KeepAlive(wire.WORKER, self.service.encode()))]

    def leave(self) -> list[Frames]:
        """Unregister cleanly: the broker reassigns held jobs at once."""
        body = bodies.to_json({"clean": True})
        return [wire.encode(wire.NfpDisconnect(wire.WORKER, self.service.encode(), body))]

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Decode one message. Unreadable messages are ignored."""
        try:
            message = wire.decode(frames)
            self.is_joined |= isinstance(message, wire.KeepAlive | wire.NfpTask)
            if isinstance(message, wire.NfpTask):
                return self._handlers[message.command](message, message.uuid.decode())
        except (MalformedMessage, UnicodeDecodeError):
            return []
        if isinstance(message, wire.NfpDisconnect):
            self.is_joined = False
            return [Dismissed(bodies.read_reason(message.body))]
        if isinstance(message, wire.Open):
            self._opened(bodies.read_open(message.body))
        return [Alive()] if isinstance(message, wire.KeepAlive | wire.Open) else []

    def _opened(self, declared: bodies.OpenBody) -> None:
        """Store what the broker declares: whether it is ours, and its heartbeat interval."""
        self._is_ours = declared.agent == "dragoman"
        if declared.beat_every is not None and declared.beat_every > 0:
            self.beat_every = min(declared.beat_every, BEAT_EVERY)
        if declared.hold is not None and declared.hold > 0:
            self.hold = max(declared.hold, self.beat_every)

    def _post(self, message: wire.NfpTask, ticket: str) -> list[WorkerNotice]:
        """Take a job. The same job again is the same run, unless it retries a failed one."""
        attempt = message.more[0] if message.more else b""
        if held := self._held.get(ticket):
            held.client, held.attempt = message.client, attempt
            return [SendNow(frames) for frames in self._confirm(ticket)] if held.is_taken else []
        if ticket in self._results and self._failed.get(ticket, attempt) == attempt:
            return [SendNow(self._answer(message, ticket))]
        self._results.pop(ticket, None)
        try:
            call = _CODEC.read_call(Body(NAME, (message.body, *message.more[1:])))
        except Unmappable as error:
            self._held[ticket] = _RunningJob(message.client, attempt, "")
            answer = Answer(fault=Fault(FaultCode.BAD_REQUEST, str(error)))
            return [SendNow(frames) for frames in self.finish(ticket, answer)]
        resources = bodies.read_resources(message.body)
        held = _RunningJob(message.client, attempt, call.task, resources)
        self._held[ticket] = held
        client = message.client.decode(errors="backslashreplace")
        return [
            Assigned(ticket, JobId(ticket), call, self.service, client, call.timeout, resources)
        ]

    def _get(self, message: wire.NfpTask, ticket: str) -> list[WorkerNotice]:
        return [SendNow(self._answer(message, ticket))]

    def _answer(self, message: wire.NfpTask, ticket: str) -> Frames:
        """Encode the status of a job: its result, running, waiting for input, or unknown."""
        held = self._held.get(ticket)
        if kept := self._results.get(ticket):
            status, body = kept
        elif held is None:
            status, body = b"404", self._status_body(ticket, "JOB NOT FOUND")
        elif held.question:
            question = {"input_request": held.question}
            status, body = b"102", self._status_body(ticket, "WAITING_CLIENT_INPUT", **question)
        else:
            status, body = b"300", self._status_body(ticket, "STARTED")
        attempt = message.more[:1]
        report = wire.NfpReport(
            wire.RESPONSE, message.client, message.uuid, status, body, more=attempt
        )
        return wire.encode(report)

    def _delete(self, message: wire.NfpTask, ticket: str) -> list[WorkerNotice]:
        if ticket in self._held:
            return [Stop(ticket)]
        return [SendNow(self._answer(message, ticket))]

    def _put(self, message: wire.NfpTask, ticket: str) -> list[WorkerNotice]:
        held = self._held.get(ticket)
        if held is None:
            return []
        try:
            content = msgspec.json.decode(message.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return [InputGiven(ticket, "", message.body)]
        if isinstance(content, dict) and "input_id" in content:
            held.question = {}
            value = from_jsonable(content.get("value"))
            return [InputGiven(ticket, str(content["input_id"]), value)]
        return [InputGiven(ticket, "", from_jsonable(content))]

    # --- reporting ------------------------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Confirm that the job has arrived and runs."""
        self._held[ticket].is_taken = True
        return self._confirm(ticket)

    def _confirm(self, ticket: str) -> list[Frames]:
        body = bodies.accepted(self.name, ticket, self.service)
        return [self._report(wire.RESPONSE, ticket, b"201", body)]

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Report progress. NorFab's clients show the message, ours get the whole value."""
        message = event if isinstance(event, str) else "progress"
        return [self._event(ticket, message, extras={"event": event})]

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream."""
        return [self._report(wire.STREAM, ticket, b"200", data)]

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Ask the client a question."""
        asked = {"id": request, "question": question, "default": None, "metadata": {}}
        self._held[ticket].question = asked
        return [
            self._event(
                ticket,
                question if isinstance(question, str) else "input requested",
                event_type="input_request",
                status="waiting_client_input",
                extras={"input_request": asked},
            )
        ]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result, and keep it for later requests."""
        if answer.fault is not None and answer.fault.code is FaultCode.CANCELLED:
            return self._end(ticket, b"417", self._status_body(ticket, "CANCELLED"))
        held = self._held[ticket]
        task = f"{self.name}:{held.task}"
        answer = replace(answer, resources=answer.resources or held.resources)
        result = result_object(answer, task=task, job=ticket, service=self.service)
        try:
            body = write({self.name: result})
            check_result_size([body])
        except Unmappable as error:
            fault = Fault(error.code, f"the result cannot be sent: {error}")
            return self.finish(ticket, Answer(fault=fault))
        if answer.fault is not None:
            self._failed.remember(ticket, held.attempt)
        announcement = self._event(
            ticket, "completed", event_type="result_ready", status="completed"
        )
        pushed = self._end(ticket, b"200", body)
        return pushed if self._is_ours else [*pushed, announcement]

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job without running it. NorFab's broker fails the job."""
        frames = self._report(
            wire.RESPONSE, ticket, b"404", self._status_body(ticket, bodies.HANDED_BACK)
        )
        del self._held[ticket]
        return [frames]

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Raise `Unsupported`: NFP has no forwarding."""
        raise Unsupported("nfp cannot forward a job: submit a new job from the task instead")

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Publish an event: an EVENT without a client, whose job id frame is the topic."""
        report = wire.NfpReport(wire.EVENT, b"", topic.encode(), b"200", write(event))
        return [wire.encode(report)]

    def _end(self, ticket: str, status: bytes, body: bytes) -> list[Frames]:
        frames = self._report(wire.RESPONSE, ticket, status, body)
        del self._held[ticket]
        self._results.remember(ticket, (status, body))
        return [frames]

    def _report(self, command: str, ticket: str, status: bytes, body: bytes) -> Frames:
        held = self._held[ticket]
        uuid = ticket.encode()
        attempt = (held.attempt,) if held.attempt else ()
        return wire.encode(wire.NfpReport(command, held.client, uuid, status, body, more=attempt))

    def _event(self, ticket: str, message: str, **more: Any) -> Frames:
        task = self._held[ticket].task
        body = bodies.event(
            self.name, self.service, ticket, message, self._stamp(), task=task, **more
        )
        return self._report(wire.EVENT, ticket, b"200", body)

    def _status_body(self, ticket: str, status: str, **more: object) -> bytes:
        return bodies.job_status(self.name, ticket, self.service, status, **more)
