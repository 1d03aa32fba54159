"""Workers over HTTP, by long poll: ready, then a job or a heartbeat, then the result.

A poll that waits is a sign of life, and so is every report: the lease is the polling itself. A word
is offered again until the worker says (by `after`, in its next poll) that it has arrived: an answer
that is lost on the way loses nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dragoman.dialects.base import Frames
from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import HttpBodyCodec, code_of, question, spread
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault
from dragoman.transports.memory import MemoryHub
from dragoman.web.client_channels import PATIENCE
from dragoman.web.jobs import CLIENT_CLOSED_REQUEST, answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import (
    BYTES,
    ClientDisconnected,
    checked_name,
    media_type,
    read_bytes,
    read_json,
    require_json,
    unless_disconnected,
)
from dragoman.web.settings import WebSettings

_DRESS: Final = HttpBodyCodec()
#: More attempts than any job has, and than the ledger can count.
_NO_ATTEMPT: Final = 2**31
#: Sessions at a time; one more is refused.
MOST: Final = 10_000
#: Words taken for a worker that does not fetch them; the rest waits in its inbox, which is bounded.
_WORDS: Final = 10_000
#: A word's number, the word, and its parts.
Word = tuple[int, Any, tuple[bytes, ...]]

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Span = Annotated[float, msgspec.Meta(ge=0, le=86_400)]
SessionId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class WorkerRegistration(msgspec.Struct, forbid_unknown_fields=True):
    """What a worker says of itself."""

    services: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=1000)]
    name: str = ""
    labels: dict[str, str] = {}
    resources: list[str] = []
    #: Jobs it takes at a time.
    credit: Count = 1
    #: Seconds it may be silent while it holds a job, for workers that cannot poll meanwhile.
    busy_lease: Span = 0.0
    #: Its session of before, and the jobs it still holds, when it comes back.
    session: SessionId | None = None
    holds: list[str] | None = None


class PollRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How long to wait, and the number of the last word that arrived."""

    wait: Span | None = None
    after: int | None = None


class WorkerReport(msgspec.Struct, forbid_unknown_fields=True):
    """What a worker says about a job."""

    kind: str = "final"
    value: Any = None
    fault: dict[str, str] | None = None
    #: Names a question.
    request: str = ""
    #: Whom the job is passed on to, and the call.
    service: str = ""
    task: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}


class PublishRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a worker publishes."""

    topic: Name
    event: Any = None


class WorkerSession:
    """One worker's session: the words that wait for it, and who waits for words."""

    def __init__(self, hub: MemoryHub, id_: str) -> None:
        self.id = id_
        self.peer = hub.connect(_address(id_))
        self.peer.wake = self._receive
        #: Why it ended, once it has.
        self.ended = ""
        self.is_over = asyncio.Event()
        self._words: deque[Word] = deque()
        self._numbers = count(1)
        self._delivered = 0
        self._arrived = asyncio.Event()
        self._heard: dict[str, asyncio.Future[str]] = {}
        self._requests = count(1)
        self._poll = 0

    def say(self, message: wire.Message, parts: Frames = ()) -> None:
        """Say something that is not answered."""
        self.peer.say(wire.encode(message, parts))

    def new_request(self) -> str:
        """Return a name for a request."""
        return str(next(self._requests))

    async def deliver(self, message: Any, parts: Frames = ()) -> str:
        """Say something and wait until it is durable; return the verdict on it."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._heard[message.request] = future
        self.say(message, parts)
        try:
            async with asyncio.timeout(PATIENCE):
                return await future
        except TimeoutError:
            raise Problem(503, f"no answer within {PATIENCE:g} s", "busy") from None
        finally:
            del self._heard[message.request]

    def _receive(self) -> None:
        while self.peer.inbox and len(self._words) < _WORDS:
            message, parts = wire.decode(self.peer.inbox.popleft())
            if isinstance(message, wire.Heard):
                future = self._heard.get(message.request)
                if future is not None and not future.done():
                    future.set_result(message.verdict)
            elif isinstance(message, wire.Dismissed):
                self.end(message.reason)
            else:
                self._words.append((next(self._numbers), message, parts))
                self._arrived.set()

    def end(self, reason: str) -> None:
        """End the session: who polls is told so."""
        self.ended = reason or "the session has ended"
        self.is_over.set()
        self._arrived.set()
        for future in self._heard.values():
            if not future.done():
                future.set_exception(gone(self))

    def acknowledge(self, after: int | None) -> None:
        """Let go of the words that have arrived; without a number, of all that were sent."""
        after = self._delivered if after is None else after
        while self._words and self._words[0][0] <= after:
            self._words.popleft()
        self._receive()

    async def next_word(self, wait: float, beat_every: float) -> Word | None:
        """Return the first word, waiting for it; None if there is none. Beats while it waits."""
        self._poll = poll = self._poll + 1
        # An older poll of the same worker has nothing to wait for any more.
        self._arrived.set()
        self._arrived = asyncio.Event()
        until = asyncio.get_running_loop().time() + wait
        while not self._words and not self.ended and self._poll == poll:
            left = until - asyncio.get_running_loop().time()
            self.say(wire.Beat())
            if left <= 0:
                return None
            await _within(self._arrived, min(left, beat_every))
        if self._poll != poll or self.ended or not self._words:
            return None
        self._delivered = max(self._delivered, self._words[0][0])
        return self._words[0]


def _address(session: str) -> bytes:
    return f"{wire.WORKER}{session}".encode()


async def _within(event: asyncio.Event, wait: float) -> None:
    try:
        async with asyncio.timeout(wait):
            await event.wait()
    except TimeoutError:
        return


def gone(session: WorkerSession) -> Problem:
    """Say that a session is over."""
    words = f"{session.ended}; register again with POST /v1/workers"
    return Problem(404, words, "unknown_session")


class WorkerRoutes:
    """The routes for workers."""

    def __init__(self, hub: MemoryHub, settings: WebSettings, new_id: Callable[[], str]) -> None:
        self._hub = hub
        self._settings = settings
        self._new_id = new_id
        self._sessions: dict[str, WorkerSession] = {}

    async def _json(self, request: Request) -> bytes:
        raw = await read_bytes(request, self._settings.max_body, self._settings.body_timeout)
        if raw:
            require_json(request.headers)
        return raw

    async def ready(self, request: Request) -> Response:
        """POST /v1/workers: register, or come back to a session."""
        said = read_json(await self._json(request), WorkerRegistration)
        for name in said.services:
            checked_name(name, "a service")
        if said.session is not None:
            self._hub.check(_address(said.session))
        session = self._open(said.session or self._new_id())
        name = checked_name(said.name or f"http-{session.id[:8]}", "a worker's name")
        joined = wire.Join(
            session.new_request(),
            name,
            tuple(said.services),
            said.credit,
            said.labels,
            tuple(said.resources),
            tuple(said.holds) if said.holds is not None else None,
            said.busy_lease,
        )
        await session.deliver(joined)
        settings = self._settings
        answered = {
            "session": session.id,
            "name": name,
            "beat_every": settings.beat_every,
            "lease": settings.beat_every * settings.missed_allowed,
            "longest_wait": settings.long_poll,
        }
        return answer(answered, 201, {"Location": f"/v1/workers/{session.id}"})

    def _open(self, id_: str) -> WorkerSession:
        found = self._sessions.get(id_)
        if found is not None and not found.ended:
            return found
        self._forget_ended()
        if len(self._sessions) >= MOST:
            raise Problem(429, f"{MOST} workers are registered already", "too_many_workers")
        session = self._sessions[id_] = WorkerSession(self._hub, id_)
        return session

    def _forget_ended(self) -> None:
        for id_, session in list(self._sessions.items()):
            if session.ended:
                self._drop(id_)

    def _drop(self, id_: str) -> None:
        session = self._sessions.pop(id_)
        self._hub.disconnect(session.peer.address)

    def _find(self, request: Request) -> WorkerSession:
        session = self._sessions.get(request.path_params["session"])
        if session is None:
            words = "no such session here; register again with POST /v1/workers"
            raise Problem(404, words, "unknown_session")
        if session.ended:
            raise gone(session)
        self._hub.check(session.peer.address)
        return session

    async def poll(self, request: Request) -> Response:
        """POST /v1/workers/{session}/poll: wait for a word."""
        session = self._find(request)
        poll = read_json(await self._json(request), PollRequest)
        longest = self._settings.long_poll
        wait = longest if poll.wait is None else min(poll.wait, longest)
        session.acknowledge(poll.after)
        # Half the beat, so that a waiting worker never comes near the end of its lease.
        waiting = session.next_word(wait, self._settings.beat_every / 2)
        try:
            word = await unless_disconnected(request, waiting)
        except ClientDisconnected:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        if session.ended:
            raise gone(session)
        if word is None:
            return answer({}, headers={"Dragoman-Kind": "none"})
        return _word(word, request.headers.get("accept", "") == BYTES)

    async def report(self, request: Request) -> Response:
        """POST /v1/workers/{session}/jobs/{job}/{attempt}: say something about a job."""
        session = self._find(request)
        settings, about = self._settings, request.path_params
        if about["attempt"] >= _NO_ATTEMPT:
            raise Problem(404, f"no job has {about['attempt']} attempts")
        raw = await read_bytes(request, settings.max_body, settings.body_timeout)
        if media_type(request.headers) == BYTES:
            said, parts = WorkerReport(request.query_params.get("kind", "final")), _raw(raw)
        else:
            require_json(request.headers)
            said = read_json(raw, WorkerReport)
            parts = _parts(said)
        message = _report(session.new_request(), about["job"], about["attempt"], said)
        verdict = await session.deliver(message, parts)
        return answer({"job": about["job"], "attempt": about["attempt"], "status": verdict})

    async def publish(self, request: Request) -> Response:
        """POST /v1/workers/{session}/events: publish an event."""
        session = self._find(request)
        said = read_json(await self._json(request), PublishRequest)
        message = wire.Publish(session.new_request(), said.topic)
        await session.deliver(message, _DRESS.write_answer(Answer(said.event)).parts)
        return answer({"topic": said.topic, "published": True}, 202)

    async def leave(self, request: Request) -> Response:
        """DELETE /v1/workers/{session}: go; what it holds goes to others."""
        session = self._find(request)
        session.say(wire.Leave("said good-bye"))
        session.end("the worker said good-bye")
        self._drop(session.id)
        return Response(status_code=204)

    def close(self) -> None:
        """End all polls: the broker is going down."""
        for session in self._sessions.values():
            session.end("the broker is going down")


#: What a worker may say about a job, beside passing it on.
_KINDS: Final = frozenset(
    {"accepted", "progress", "chunk", "ask", "final", "handed_back", "cancelled"}
)


def _report(request: str, job: str, attempt: int, said: WorkerReport) -> wire.Report | wire.Forward:
    if said.kind == "forward":
        checked_name(said.service, "a service")
        return wire.Forward(request, job, attempt, said.service, said.task)
    if said.kind not in _KINDS:
        raise Problem(400, f"kind is one of {', '.join(sorted(_KINDS))}, forward")
    fault = said.fault or {}
    code = code_of(fault.get("code", "")).value if said.fault is not None else ""
    return wire.Report(request, job, attempt, said.kind, code, fault.get("message", ""))


def _parts(said: WorkerReport) -> tuple[bytes, ...]:
    try:
        if said.kind == "forward":
            return _DRESS.write_call(Call(said.task, tuple(said.args), said.kwargs)).parts
        if said.kind == "ask":
            return question(said.request, said.value).parts
        fault = None
        if said.fault is not None:
            words = said.fault.get("message", "")
            fault = Fault(code_of(said.fault.get("code", "")), words)
        return _DRESS.write_answer(Answer(said.value, fault=fault)).parts
    except Unmappable as why:
        raise Problem(400, str(why)) from None


def _raw(raw: bytes) -> tuple[bytes, ...]:
    return _DRESS.write_answer(Answer(raw=raw)).parts


def _word(word: Word, is_raw: bool) -> Response:
    """Answer a poll with a word; its headers are for workers that cannot read JSON."""
    number, message, parts = word
    kind = _NAMES[type(message)]
    said: dict[str, Any] = {"word": number, "kind": kind, "job": message.job}
    headers = {
        "Dragoman-Word": str(number),
        "Dragoman-Kind": kind,
        "Dragoman-Job": quote(message.job, safe=""),
    }
    call = spread(parts)
    if not isinstance(message, wire.Given):
        said["attempt"] = message.attempt
        headers["Dragoman-Attempt"] = str(message.attempt)
    if isinstance(message, wire.Work):
        said |= {"service": message.service, "client": message.client}
        if message.resources:
            said["resources"] = message.resources
        headers["Dragoman-Service"] = quote(message.service, safe="")
        headers["Dragoman-Task"] = quote(call.get("task", ""), safe="")
        call = {"task": "", "args": [], "kwargs": {}} | call | {"timeout": message.timeout}
    if is_raw and len(parts) > 1:
        return Response(parts[1], 200, headers, BYTES)
    return answer(said | call, headers=headers)


_NAMES: Final[dict[type, str]] = {wire.Work: "job", wire.Stop: "cancel", wire.Given: "input"}
