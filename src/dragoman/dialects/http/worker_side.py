"""A worker's end of the HTTP door, for our own SDK.

One poll is always under way: it brings the next word and is the sign of life. Reports are said
again until the broker has answered them; after a restart of the broker the worker comes back to its
session and says what it still holds.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from dragoman.dialects.base import Frames
from dragoman.dialects.http.exchange import LAST, Response, read, readdress, request, segment
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

#: How long a poll waits; well below what the broker allows.
WAIT: Final = 20.0
#: Tickets of the past that are remembered, so that a word said twice is run once.
_REMEMBERED: Final = 1000
_PRESENCE: Final = "presence"


class _Held:
    """One job that this worker runs, or whose end the broker has not heard of."""

    __slots__ = ("attempt", "job", "question")

    def __init__(self, job: str, attempt: int) -> None:
        self.job = job
        self.attempt = attempt
        #: The open question.
        self.question = ""


class HttpWorkerSide:
    """HTTP as a worker speaks it. A ticket is job and attempt."""

    beat_every = 5.0
    #: Silence is no sign of trouble by itself: the transport asks until it is answered.
    hold: float | None = None

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
        self._is_joined = False
        self._after = 0
        self._held: dict[str, _Held] = {}
        self._past: OrderedDict[str, None] = OrderedDict()
        #: Reports without an answer, by tag, in order.
        self._unheard: dict[str, tuple[str, Frames]] = {}
        #: Tags of those that were made before the first session.
        self._early: list[str] = []
        self._count = 0
        self._words: dict[str, Callable[[dict[str, Any]], list[WorkerNotice]]] = {
            "job": self._job,
            "cancel": self._cancel,
            "input": self._input,
        }

    # --- presence -------------------------------------------------------------------------------

    def join(self) -> list[Frames]:
        """Register, or come back to the session of before with what is still held."""
        self._is_joined = False
        said: dict[str, Any] = dict(self._offer)
        if self._session:
            jobs = {held.job for held in self._held.values()}
            said |= {"session": self._session, "holds": sorted(jobs)}
        return [request("join", "POST", "/v1/workers", said, lane=_PRESENCE)]

    def beat(self) -> list[Frames]:
        """Poll, or register if that has not come about yet; one under way stays as it is."""
        return [self._poll()] if self._is_joined else self.join()

    def leave(self) -> list[Frames]:
        """Say good-bye, after everything else was said."""
        if not self._session:
            return []
        return [request("leave", "DELETE", f"/v1/workers/{self._session}", mode=LAST)]

    def _poll(self) -> Frames:
        said = {"wait": WAIT, "after": self._after}
        return request("poll", "POST", f"/v1/workers/{self._session}/poll", said)

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Take one message in; what cannot be read is ignored."""
        response = read(frames)
        if response is None:
            return []
        if response.tag == "join":
            return self._joined(response)
        if response.tag == "poll":
            return self._polled(response)
        return self._heard(response)

    def _joined(self, response: Response) -> list[WorkerNotice]:
        said = response.json()
        if response.status != 201 or not isinstance(said.get("session"), str):
            return []
        self._session = said["session"]
        self._address_early_events()
        # Words are numbered anew in a session that begins anew.
        self._after = 0
        self._is_joined = True
        again = [SendNow(frames) for _, frames in self._unheard.values()]
        return [Alive(), *again, SendNow(self._poll())]

    def _address_early_events(self) -> None:
        """Give what was published before there was a session its way there."""
        for tag in self._early:
            ticket, frames = self._unheard[tag]
            self._unheard[tag] = ticket, readdress(frames, self._events)
        self._early.clear()

    def _polled(self, response: Response) -> list[WorkerNotice]:
        if response.status == 404:
            return self._lost(response)
        if response.status != 200:
            return []
        said = response.json()
        number = said.get("word")
        words: list[WorkerNotice] = [Alive()]
        if isinstance(number, int):
            self._after = max(self._after, number)
            take = self._words.get(str(said.get("kind")))
            words = take(said) if take else words
        return [*words, SendNow(self._poll())]

    def _lost(self, response: Response) -> list[WorkerNotice]:
        if not self._is_joined:
            return []
        self._is_joined = False
        return [Dismissed(str(response.json().get("detail", "")))]

    def _job(self, said: dict[str, Any]) -> list[WorkerNotice]:
        try:
            job, attempt = str(said["job"]), int(said["attempt"])
            call = _call(said)
        except (KeyError, TypeError, ValueError):
            return []
        ticket = f"{job}/{attempt}"
        if ticket in self._held or ticket in self._past:
            return []
        self._held[ticket] = _Held(job, attempt)
        service, client = str(said.get("service", "")), str(said.get("client", ""))
        names = said.get("resources")
        resources = tuple(map(str, names)) if isinstance(names, list) else ()
        return [Assigned(ticket, JobId(job), call, service, client, call.timeout, resources)]

    def _cancel(self, said: dict[str, Any]) -> list[WorkerNotice]:
        ticket = f"{said.get('job')}/{said.get('attempt')}"
        return [Stop(ticket)] if ticket in self._held else []

    def _input(self, said: dict[str, Any]) -> list[WorkerNotice]:
        """Pass a client's answer on; without a name it answers the open question."""
        found: list[WorkerNotice] = []
        for ticket, held in self._held.items():
            if held.job == said.get("job"):
                asked = str(said.get("request") or "")
                asked = held.question if asked in ("", held.job) else asked
                held.question = ""
                found.append(InputGiven(ticket, asked, from_jsonable(said.get("value"))))
        return found

    def _heard(self, response: Response) -> list[WorkerNotice]:
        """Let go of a report that was answered, unless the session has to begin anew first."""
        if response.status == 404 and response.json().get("code") == "unknown_session":
            return self._lost(response)
        if response.status < 500:
            ticket, _ = self._unheard.pop(response.tag, ("", b""))
            if ticket in self._past and not any(t == ticket for t, _ in self._unheard.values()):
                self._held.pop(ticket, None)
            return [Alive()]
        waiting = self._unheard.get(response.tag)
        return [SendNow(waiting[1])] if waiting else []

    # --- reporting ------------------------------------------------------------------------------

    def take(self, ticket: str) -> list[Frames]:
        """Confirm by the next poll, which says that this word has arrived."""
        return []

    def progress(self, ticket: str, event: Any) -> list[Frames]:
        """Report on the way."""
        return [self._report(ticket, {"kind": "progress", "value": event})]

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream."""
        return [self._report(ticket, raw=data, kind="chunk")]

    def ask_input(self, ticket: str, request: str, question: Any) -> list[Frames]:
        """Ask the client something."""
        self._held[ticket].question = request
        return [self._report(ticket, {"kind": "ask", "request": request, "value": question})]

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        if answer.raw is not None and answer.fault is None:
            return [self._end(ticket, raw=answer.raw, kind="final")]
        if answer.fault is None:
            said: dict[str, Any] = {"kind": "final", "value": answer.value}
        elif answer.fault.code is FaultCode.CANCELLED:
            said = {"kind": "cancelled"}
        else:
            fault = {"code": answer.fault.code.value, "message": answer.fault.message}
            said = {"kind": "final", "fault": fault}
        try:
            return [self._end(ticket, said)]
        except Unmappable as why:
            fault_ = Fault(FaultCode.UNMAPPABLE, f"the result cannot be sent: {why}")
            return self.finish(ticket, Answer(fault=fault_))

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun."""
        return [self._end(ticket, {"kind": "handed_back"})]

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Pass the job on to another service."""
        said = {
            "kind": "forward",
            "service": service,
            "task": call.task,
            "args": list(call.args),
            "kwargs": dict(call.kwargs),
        }
        return [self._end(ticket, said)]

    def publish(self, topic: str, event: Any) -> list[Frames]:
        """Publish an event to whoever subscribed."""
        tag = self._tag()
        said = {"topic": topic, "event": event}
        frames = request(tag, "POST", self._events, said, lane=_PRESENCE)
        self._unheard[tag] = ("", frames)
        if not self._session:
            # There is nowhere to send it yet; it goes with the reports that are said again.
            self._early.append(tag)
            return []
        return [frames]

    @property
    def _events(self) -> str:
        return f"/v1/workers/{self._session}/events"

    def _end(
        self, ticket: str, said: Any = None, *, raw: bytes | None = None, kind: str = ""
    ) -> Frames:
        """Make the last report on a job."""
        frames = self._report(ticket, said, raw=raw, kind=kind)
        self._past[ticket] = None
        if len(self._past) > _REMEMBERED:
            self._past.popitem(last=False)
        return frames

    def _report(
        self, ticket: str, said: Any = None, *, raw: bytes | None = None, kind: str = ""
    ) -> Frames:
        held = self._held[ticket]
        path = f"/v1/workers/{self._session}/jobs/{segment(held.job)}/{held.attempt}"
        query = {"kind": kind} if kind else None
        tag = self._tag()
        frames = request(tag, "POST", path, said, lane=ticket, raw=raw, query=query)
        self._unheard[tag] = (ticket, frames)
        return frames

    def _tag(self) -> str:
        self._count += 1
        return f"report:{self._count}"


def _call(said: dict[str, Any]) -> Call:
    task, timeout = str(said.get("task", "")), said.get("timeout")
    seconds = float(timeout) if isinstance(timeout, int | float) else None
    headers = {k: str(v) for k, v in dict(said.get("headers") or {}).items()}
    if said.get("raw") is True:
        raw = from_jsonable(said.get("value"))
        if not isinstance(raw, bytes):
            raise ValueError("raw content without bytes")
        return Call(task, raw=raw, headers=headers, timeout=seconds)
    args = tuple(map(from_jsonable, said.get("args") or ()))
    kwargs = {k: from_jsonable(v) for k, v in dict(said.get("kwargs") or {}).items()}
    return Call(task, args, kwargs, None, headers, seconds)
