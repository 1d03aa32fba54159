"""Event streams (SSE): the ledger from a position on, and all that one client is told.

A reader that is slower than the ledger costs a bounded number of events in memory: beyond that no
more are taken for it until it has caught up, and then the ledger is read from where it was.
"""

import asyncio
from collections import deque
from itertools import count
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import spread
from dragoman.web.client_channels import ClientChannel, ClientChannels
from dragoman.web.problems import Problem
from dragoman.web.request_reading import client_name
from dragoman.web.settings import WebSettings

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_MOST_TOPICS: Final = 100


class ServerSentStream:
    """What waits for one reader, and whether there is more to come."""

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.is_over = False
        self._more = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Add something to be read."""
        self.waiting.append(data)
        self._more.set()

    def end(self) -> None:
        """Let the reader finish what waits, then stop."""
        self.is_over = True
        self._more.set()

    def refill(self) -> None:
        """Do what is to be done when all has been read."""

    def close(self) -> None:
        """Let go: the reader has gone."""

    async def next(self, at_most: float) -> bytes:
        """Return all that waits; nothing if nothing came in time."""
        if not self.waiting:
            self.refill()
            self._more.clear()
            if not self.is_over:
                try:
                    async with asyncio.timeout(at_most):
                        await self._more.wait()
                except TimeoutError:
                    return b""
        data = b"".join(self.waiting)
        self.waiting.clear()
        return data


class EventStream(ServerSentStream):
    """Records whose topics are wanted, from a position on."""

    def __init__(
        self, line: ClientChannel, name: str, topics: tuple[str, ...], after: int, window: int
    ) -> None:
        super().__init__()
        self._line = line
        self._name = name
        self._topics = topics
        self._after = after
        self._window = window
        self._is_paused = False
        line.streams[name] = self._event
        self._subscribe()

    def _subscribe(self) -> None:
        self._line.say(wire.Subscribe(self._name, self._topics, self._after))

    def _event(self, event: wire.Event, parts: tuple[bytes, ...]) -> None:
        if self._is_paused or (self._after >= 0 and event.seq <= self._after):
            return
        self._after = event.seq
        self.put(encode(parts[0] if parts else b"{}", event.topic, event.seq))
        if len(self.waiting) >= self._window:
            self._is_paused = True
            self._line.say(wire.Subscribe(self._name))

    def refill(self) -> None:
        """Go on from where the window was full."""
        if self._is_paused:
            self._is_paused = False
            self._subscribe()

    def close(self) -> None:
        """End the subscription."""
        self._line.streams.pop(self._name, None)
        self._line.say(wire.Subscribe(self._name))


class Inbox(ServerSentStream):
    """All that one client is told about its jobs; a newer inbox takes over from an older one."""

    def __init__(self, line: ClientChannel, window: int) -> None:
        super().__init__()
        self._line = line
        self._window = window
        previous = getattr(line.inbox, "__self__", None)
        line.inbox = self._told
        if isinstance(previous, Inbox):
            previous.end()

    def _told(self, told: wire.Told, parts: tuple[bytes, ...]) -> None:
        if len(self.waiting) >= self._window:
            # Its client opens another one, and asks about its jobs.
            self.end()
            return
        said = {
            "job": told.job,
            "kind": told.about,
            "service": told.service,
            "worker": told.worker,
            **spread(parts),
        }
        if told.workers:
            said["workers"] = told.workers
        if told.resources:
            said["resources"] = told.resources
        if told.state:
            said["state"] = told.state
        if told.fault:
            said["fault"] = {"code": told.fault, "message": told.words}
        self.put(encode(msgspec.json.encode(said), told.about))

    def close(self) -> None:
        """Listen no more, unless somebody else listens by now."""
        if self._line.inbox == self._told:
            self._line.inbox = None


def encode(data: bytes, event: str = "", seq: int = 0) -> bytes:
    """Write one event. JSON has no line breaks, so one data line is enough."""
    head = f"id: {seq}\n" if seq else ""
    # A topic is a publisher's own text; a line break in it would forge a field.
    head += f"event: {' '.join(event.split())}\n" if event else ""
    return head.encode() + b"data: " + data + b"\n\n"


class StreamResponse(Response):
    """Sends a stream until its reader leaves, stalls, or the door closes."""

    def __init__(
        self, stream: ServerSentStream, closing: asyncio.Event, settings: WebSettings
    ) -> None:
        super().__init__()
        self._stream = stream
        self._closing = closing
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
        ends = [
            asyncio.ensure_future(self._pump(send)),
            asyncio.ensure_future(_disconnected(receive)),
            asyncio.ensure_future(self._closing.wait()),
        ]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream.close()
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        await send({"type": "http.response.body", "body": b""})

    async def _pump(self, send: Send) -> None:
        while not (self._stream.is_over and not self._stream.waiting):
            data = await self._stream.next(self._settings.heartbeat) or b": alive\n\n"
            try:
                async with asyncio.timeout(self._settings.stalled):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            except TimeoutError:
                return


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamRoutes:
    """The routes that stream."""

    def __init__(self, lines: ClientChannels, settings: WebSettings) -> None:
        self._lines = lines
        self._settings = settings
        self._names = count(1)

    async def events(self, request: Request) -> Response:
        """GET /v1/events: records of the ledger, resumed by `Last-Event-ID`."""
        topics = tuple(t for t in request.query_params.getlist("topic") if t) or ("*",)
        if len(topics) > _MOST_TOPICS or any(len(t) > 256 for t in topics):
            raise Problem(400, f"at most {_MOST_TOPICS} topics of at most 256 characters")
        line = self._lines.of(client_name(request))
        name, window = f"events-{next(self._names)}", self._settings.stream_window
        stream = EventStream(line, name, topics, _position(request), window)
        return StreamResponse(stream, self._lines.is_closing, self._settings)

    async def inbox(self, request: Request) -> Response:
        """GET /v1/inbox: all that the client of this name is told about its jobs."""
        line = self._lines.of(client_name(request))
        stream = Inbox(line, 10 * self._settings.stream_window)
        return StreamResponse(stream, self._lines.is_closing, self._settings)


def _position(request: Request) -> int:
    """Return the ledger position to go on after: the last one seen, the one asked for, or now."""
    text: Any = request.headers.get("last-event-id") or request.query_params.get("after") or "-1"
    try:
        position = int(text)
    except ValueError:
        raise Problem(400, f"{text!r} is no ledger position") from None
    if not -1 <= position < 2**63:
        raise Problem(400, "a ledger position is -1 (from now on), 0 (all), or a sequence number")
    return position
