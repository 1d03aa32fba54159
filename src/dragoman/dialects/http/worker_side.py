"""A worker's end of HTTP, for the SDK.

One poll is always open: it brings the next messages and is the heartbeat. Reports are repeated
until the broker answers them; the last reports on jobs travel together. After a restart of the
broker the worker resumes its session and lists the jobs that it still holds.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from dragoman.dialects.base import Frames, check_result_size
from dragoman.dialects.http.batching import MOST_BYTES, Batching, json_list
from dragoman.dialects.http.body_codec import write
from dragoman.dialects.http.exchange import LAST, Response, read, request, segment, with_path
from dragoman.dialects.json_values import from_jsonable
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Dismissed,
    InputGiven,
    SendNow,
    Stop,
    WorkerNotice,
)
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId

#: How long a poll waits; well below the broker's limit.
WAIT: Final = 20.0
#: Messages of one poll.
MOST_MESSAGES: Final = 256
#: Most ended tickets remembered: a repeated job message must not run again.
_REMEMBERED: Final = 1000
_PRESENCE: Final = "presence"
_REPORTS: Final = "reports"


class _HeldJob:
    """One job that this worker runs, or whose end the broker has not acknowledged."""

    __slots__ = ("attempt", "job", "question", "unacknowledged")

    def __init__(self, job: str, attempt: int) -> None:
        self.job = job
        self.attempt = attempt
        #: The name of the open question.
        self.question = ""
        #: Reports on their way that the broker has not acknowledged.
        self.unacknowledged = 0


class HttpWorkerSide:
    """One worker: polls for messages, posts reports. A ticket is `job/attempt`."""

    beat_every = 5.0
    #: Silence does not mean a lost broker: the transport repeats each request until it is answered.
    hold: float | None = None
    #: The broker gives a returned job to another worker.
    can_give_back = True

    def __init__(
        self,
        name: str,
        services: tuple[str, ...],
        *,
        credit: int = 1,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self._offer = {
            "name": name,
            "services": list(services),
            "credit": credit,
            "labels": dict(labels or {}),
        }
        self._session = ""
        #: Why the broker refused the registration; empty if it did not.
        self.refusal = ""
        self.is_joined = False
        self._after = 0
        self._held: dict[str, _HeldJob] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        #: Unacknowledged reports by tag, in order.
        self._unacknowledged: dict[str, tuple[str, Frames]] = {}
        #: Last reports on jobs, as JSON, by ticket.
        self._last_reports = Batching()
        #: Tags of the reports made before the first session.
        self._early: list[str] = []
        self._count = 0
        self._readers: dict[str, Callable[[dict[str, object]], list[WorkerNotice]]] = {
            "job": self._job,
            "cancel": self._cancel,
            "input": self._input,
        }

    # --- presence -------------------------------------------------------------------------------

    def join(self) -> list[Frames]:
        """Register, or resume the session with the jobs still held."""
        self.is_joined = False
        content: dict[str, object] = dict(self._offer)
        if self._session:
            jobs = {held.job for held in self._held.values()}
            content |= {"session": self._session, "holds": sorted(jobs)}
        return [request("join", "POST", "/v1/workers", content, lane=_PRESENCE)]

    def beat(self) -> list[Frames]:
        """Poll, or register if not registered; a request already open stays as it is."""
        return [self._poll()] if self.is_joined else self.join()

    def leave(self) -> list[Frames]:
        """Leave, after all other requests."""
        if not self._session:
            return []
        waiting = list[Frames]()
        while batch := self._last_reports.start_another():
            waiting.append(self._batch(*batch))
        return [*waiting, request("leave", "DELETE", f"/v1/workers/{self._session}", mode=LAST)]

    def _poll(self) -> Frames:
        content = {"wait": WAIT, "after": self._after, "most": MOST_MESSAGES}
        return request("poll", "POST", f"/v1/workers/{self._session}/poll", content)

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Read one response; unreadable ones are ignored."""
        response = read(frames)
        if response is None:
            return []
        if response.tag == "join":
            return self._joined(response)
        if response.tag == "poll":
            return self._polled(response)
        what, _, number = response.tag.partition(":")
        if what == "reports":
            return self._batch_acknowledged(int(number), response)
        return self._acknowledged(response)

    def _joined(self, response: Response) -> list[WorkerNotice]:
        content = response.json()
        if response.status != 201 or not isinstance(content.get("session"), str):
            is_refused = response.status in (401, 403)
            self.refusal = str(content.get("detail", "")) if is_refused else ""
            return []
        self.refusal = ""
        self._session = content["session"]
        self._set_path_of_early_events()
        # A new session numbers its messages from 1.
        self._after = 0
        self.is_joined = True
        again = [SendNow(frames) for _, frames in self._unacknowledged.values()]
        again += map(SendNow, self._next_reports())
        return [Alive(), *again, SendNow(self._poll())]

    def _set_path_of_early_events(self) -> None:
        """Set the path of events that were published before there was a session."""
        for tag in self._early:
            ticket, frames = self._unacknowledged[tag]
            self._unacknowledged[tag] = ticket, with_path(frames, self._events)
        self._early.clear()

    def _polled(self, response: Response) -> list[WorkerNotice]:
        if response.status == 404:
            return self._lost(response)
        if response.status != 200:
            return []
        messages = response.json().get("messages")
        notices: list[WorkerNotice] = []
        for message in messages if isinstance(messages, list) else ():
            notices += self._message(message)
        return [*(notices if messages else [Alive()]), SendNow(self._poll())]

    def _message(self, content: object) -> list[WorkerNotice]:
        if not isinstance(content, dict) or not isinstance(number := content.get("word"), int):
            return []
        self._after = max(self._after, number)
        read_message = self._readers.get(str(content.get("kind")))
        return read_message(content) if read_message else []

    def _lost(self, response: Response) -> list[WorkerNotice]:
        if not self.is_joined:
            return []
        self.is_joined = False
        return [Dismissed(str(response.json().get("detail", "")))]

    def _job(self, content: dict[str, Any]) -> list[WorkerNotice]:
        try:
            job, attempt = str(content["job"]), int(content["attempt"])
            call = _call(content)
        except (KeyError, TypeError, ValueError):
            return []
        ticket = f"{job}/{attempt}"
        if ticket in self._held or ticket in self._ended:
            return []
        self._held[ticket] = _HeldJob(job, attempt)
        service, client = str(content.get("service", "")), str(content.get("client", ""))
        names = content.get("resources")
        resources = tuple(map(str, names)) if isinstance(names, list) else ()
        return [Assigned(ticket, JobId(job), call, service, client, call.timeout, resources)]

    def _cancel(self, content: dict[str, object]) -> list[WorkerNotice]:
        ticket = f"{content.get('job')}/{content.get('attempt')}"
        return [Stop(ticket)] if ticket in self._held else []

    def _input(self, content: dict[str, object]) -> list[WorkerNotice]:
        """Return a client's input; without a name it answers the open question."""
        found: list[WorkerNotice] = []
        for ticket, held in self._held.items():
            if held.job == content.get("job"):
                name = str(content.get("request") or "")
                name = held.question if name in ("", held.job) else name
                held.question = ""
                found.append(InputGiven(ticket, name, from_jsonable(content.get("value"))))
        return found

    def _acknowledged(self, response: Response) -> list[WorkerNotice]:
        """Forget an acknowledged report; if the session is unknown, register again first."""
        if _is_unknown_session(response):
            return self._lost(response)
        if response.status < 500:
            ticket, _ = self._unacknowledged.pop(response.tag, ("", b""))
            if (held := self._held.get(ticket)) is not None:
                held.unacknowledged -= 1
                if ticket in self._ended and not held.unacknowledged:
                    del self._held[ticket]
            return [Alive()]
        waiting = self._unacknowledged.get(response.tag)
        return [SendNow(waiting[1])] if waiting else []

    def _batch_acknowledged(self, number: int, response: Response) -> list[WorkerNotice]:
        """Forget the acknowledged reports of a batch, and send those that have come since."""
        if response.status >= 500 or _is_unknown_session(response):
            self._last_reports.put_back(number)
            if response.status < 500:
                return self._lost(response)
            return [SendNow(frames) for frames in self._next_reports()]
        batch, again = self._last_reports.end(number), list[Frames]()
        if response.status == 413 and len(batch) > 1:
            # Each may be small enough alone.
            again = [self._send_report(ticket, encoded=report) for ticket, report in batch]
        else:
            for ticket, _ in batch:
                self._held.pop(ticket, None)
        return [Alive(), *map(SendNow, again), *map(SendNow, self._next_reports())]

    # --- reporting ------------------------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Return no request: the next poll acknowledges the message."""
        return []

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Report progress."""
        return [self._report(ticket, {"kind": "progress", "value": event})]

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream."""
        return [self._report(ticket, raw=data, kind="chunk")]

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Ask the client a question."""
        self._held[ticket].question = request
        return [self._report(ticket, {"kind": "ask", "request": request, "value": question})]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        if answer.fault is None:
            content: dict[str, object] = {"kind": "final", "value": answer.value}
        elif answer.fault.code is FaultCode.CANCELLED:
            content = {"kind": "cancelled"}
        else:
            fault = {"code": answer.fault.code.value, "message": answer.fault.message}
            content = {"kind": "final", "fault": fault}
        try:
            if answer.raw is not None and answer.fault is None:
                frames = self._report(ticket, raw=answer.raw, kind="final")
                self._remember(ticket)
                return [frames]
            return self._end(ticket, content)
        except Unmappable as error:
            fault_ = Fault(error.code, f"the result cannot be sent: {error}")
            return self.finish(ticket, Answer(fault=fault_))

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun."""
        return self._end(ticket, {"kind": "handed_back"})

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Forward the job to another service."""
        content: dict[str, object] = {
            "kind": "forward",
            "service": service,
            "task": call.task,
            "args": list(call.args),
            "kwargs": dict(call.kwargs),
        }
        return self._end(ticket, content)

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Publish an event."""
        tag = self._tag()
        content = {"topic": topic, "event": event}
        frames = request(tag, "POST", self._events, content, lane=_PRESENCE)
        self._unacknowledged[tag] = ("", frames)
        if not self._session:
            # There is no session yet; it is sent with the repeated reports.
            self._early.append(tag)
            return []
        return [frames]

    @property
    def _events(self) -> str:
        return f"/v1/workers/{self._session}/events"

    def _end(self, ticket: str, content: dict[str, object]) -> list[Frames]:
        """Write the last report on a job: with others, if no earlier one is on its way."""
        held = self._held[ticket]
        encoded = write(content | {"job": held.job, "attempt": held.attempt})
        if held.unacknowledged or len(encoded) > MOST_BYTES:
            frames = [self._send_report(ticket, encoded=encoded)]
        else:
            self._last_reports.add(ticket, encoded)
            frames = self._next_reports()
        self._remember(ticket)
        return frames

    def _remember(self, ticket: str) -> None:
        self._ended[ticket] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _next_reports(self) -> list[Frames]:
        """Send the last reports that wait, unless some are under way."""
        batch = self._last_reports.start() if self.is_joined else None
        return [self._batch(*batch)] if batch else []

    def _batch(self, number: int, reports: list[tuple[str, bytes]]) -> Frames:
        path = f"/v1/workers/{self._session}/reports"
        content = json_list("reports", reports)
        return request(f"reports:{number}", "POST", path, lane=_REPORTS, encoded=content)

    def _report(
        self, ticket: str, content: object = None, *, raw: bytes | None = None, kind: str = ""
    ) -> Frames:
        query = {"kind": kind} if kind else None
        return self._send_report(ticket, content, raw=raw, query=query)

    def _send_report(self, ticket: str, content: object = None, **more: Any) -> Frames:
        """Send a report by itself, after the earlier ones of its job."""
        held = self._held[ticket]
        path = f"/v1/workers/{self._session}/jobs/{segment(held.job)}/{held.attempt}"
        tag = self._tag()
        frames = request(tag, "POST", path, content, lane=ticket, **more)
        check_result_size(frames)
        self._unacknowledged[tag] = (ticket, frames)
        held.unacknowledged += 1
        return frames

    def _tag(self) -> str:
        self._count += 1
        return f"report:{self._count}"


def _is_unknown_session(response: Response) -> bool:
    return response.status == 404 and response.json().get("code") == "unknown_session"


def _call(content: dict[str, Any]) -> Call:
    task, timeout = str(content.get("task", "")), content.get("timeout")
    seconds = float(timeout) if isinstance(timeout, int | float) else None
    headers = {k: str(v) for k, v in dict(content.get("headers") or {}).items()}
    if content.get("raw") is True:
        raw = from_jsonable(content.get("value"))
        if not isinstance(raw, bytes):
            raise ValueError("raw content without bytes")
        return Call(task, raw=raw, headers=headers, timeout=seconds)
    args = tuple(map(from_jsonable, content.get("args") or ()))
    kwargs = {k: from_jsonable(v) for k, v in dict(content.get("kwargs") or {}).items()}
    return Call(task, args, kwargs, None, headers, seconds)
