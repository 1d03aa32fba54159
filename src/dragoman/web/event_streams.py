"""Event streams (SSE): the ledger from a position on, and the notices of one client.

The buffer of each reader is bounded. If it is full, the subscription pauses; when the reader has
caught up, it resumes from the last position.
"""

import asyncio
from collections import deque
from itertools import count
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dragoman.core.effects import SendReply
from dragoman.dialects.base import Subscribed
from dragoman.dialects.http.broker_side import StreamedRecord
from dragoman.dialects.http.settings import HttpSettings
from dragoman.web.client_channels import ClientChannel, ClientChannels
from dragoman.web.job_documents import notice
from dragoman.web.problems import Problem
from dragoman.web.request_reading import client_name

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
MOST_TOPICS: Final = 100


class ServerSentStream:
    """The buffered data of one reader."""

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.is_over = False
        self._more = asyncio.Event()

    def put(self, data: bytes) -> None:
        """Add data for the reader."""
        self.waiting.append(data)
        self._more.set()

    def end(self) -> None:
        """End the stream after the buffered data."""
        self.is_over = True
        self._more.set()

    def refill(self) -> None:
        """Called when the buffer is empty."""

    def close(self) -> None:
        """Called when the reader has gone."""

    async def next(self, at_most: float) -> bytes:
        """Return all buffered data; empty if none came in time."""
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
    """Records with the wanted topics, from a position on."""

    def __init__(
        self, channel: ClientChannel, tag: str, topics: tuple[str, ...], after: int, window: int
    ) -> None:
        super().__init__()
        self._channel = channel
        self._tag = tag
        self._topics = topics
        self._after = after
        self._window = window
        self._is_paused = False
        channel.streams[tag] = self._take
        self._subscribe(topics)

    def _subscribe(self, topics: tuple[str, ...]) -> None:
        """Subscribe from the last position on; without topics, end the subscription."""
        self._channel.tell(Subscribed(self._channel.peer, topics, self._after, self._tag))

    def _take(self, record: StreamedRecord) -> None:
        if self._is_paused or (self._after >= 0 and record.seq <= self._after):
            return
        self._after = record.seq
        self.put(encode(record.data, record.topic, record.seq))
        if len(self.waiting) >= self._window:
            self._is_paused = True
            self._subscribe(())

    def refill(self) -> None:
        """Resume after a pause, from the last position."""
        if self._is_paused:
            self._is_paused = False
            self._subscribe(self._topics)

    def close(self) -> None:
        """End the subscription."""
        self._channel.streams.pop(self._tag, None)
        self._subscribe(())


class Inbox(ServerSentStream):
    """The notices about one client's jobs; a newer inbox replaces an older one."""

    def __init__(self, channel: ClientChannel, window: int) -> None:
        super().__init__()
        self._channel = channel
        self._window = window
        previous = getattr(channel.inbox, "__self__", None)
        channel.inbox = self._take
        if isinstance(previous, Inbox):
            previous.end()

    def _take(self, reply: SendReply) -> None:
        if len(self.waiting) >= self._window:
            # The client opens another inbox and asks about its jobs.
            self.end()
            return
        self.put(encode(msgspec.json.encode(notice(reply)), reply.kind))

    def close(self) -> None:
        """Detach from the channel, unless a newer inbox has replaced this one."""
        if self._channel.inbox == self._take:
            self._channel.inbox = None


def encode(data: bytes, event: str = "", seq: int = 0) -> bytes:
    """Write one event. JSON has no line breaks, so one data line is enough."""
    head = f"id: {seq}\n" if seq else ""
    # A publisher chooses the topic; a line break in it would forge a field.
    head += f"event: {' '.join(event.split())}\n" if event else ""
    return head.encode() + b"data: " + data + b"\n\n"


class StreamResponse(Response):
    """Sends a stream until its reader leaves or stalls, or the broker stops."""

    def __init__(
        self, stream: ServerSentStream, closing: asyncio.Event, settings: HttpSettings
    ) -> None:
        super().__init__()
        self._stream = stream
        self._closing = closing
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
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
    """The routes of event streams."""

    def __init__(self, channels: ClientChannels, settings: HttpSettings) -> None:
        self._channels = channels
        self._settings = settings
        self._numbers = count(1)

    async def events(self, request: Request) -> Response:
        """GET /v1/events: records of the ledger, resumed by `Last-Event-ID`."""
        topics = tuple(t for t in request.query_params.getlist("topic") if t) or ("*",)
        if len(topics) > MOST_TOPICS or any(len(t) > 256 for t in topics):
            raise Problem(400, f"at most {MOST_TOPICS} topics of at most 256 characters")
        channel = self._channels.of(client_name(request))
        tag, window = f"events-{next(self._numbers)}", self._settings.stream_window
        return self._stream(EventStream(channel, tag, topics, _position(request), window))

    async def inbox(self, request: Request) -> Response:
        """GET /v1/inbox: the notices about the jobs of the client of this name."""
        channel = self._channels.of(client_name(request))
        return self._stream(Inbox(channel, 10 * self._settings.stream_window))

    def _stream(self, stream: ServerSentStream) -> Response:
        return StreamResponse(stream, self._channels.connection.is_closing, self._settings)


def _position(request: Request) -> int:
    """Return the position to start after: the last one seen, the one asked for, or now."""
    text: Any = request.headers.get("last-event-id") or request.query_params.get("after") or "-1"
    try:
        position = int(text)
    except ValueError:
        raise Problem(400, f"invalid ledger position {text!r}") from None
    if not -1 <= position < 2**63:
        raise Problem(
            400, "a ledger position must be -1 (from now on), 0 (all), or a sequence number"
        )
    return position
