"""The HTTP client of a peer: requests in ordered lanes, and event streams that reopen.

Each request is repeated until it is answered, so requests must be idempotent. At most one request
of a tag is in flight. The same tag again is the same request; for a stream, it restarts the stream.
"""

import asyncio
import contextlib
import json
import ssl
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import h11

from dragoman.transports.addresses import Addresses
from dragoman.transports.base import Address, Frames, Sent, is_loopback, pop_messages
from dragoman.transports.certificate_names import HandshakeFailed, explain
from dragoman.transports.http_connection import HttpConnection, SseReader
from dragoman.transports.tls import PeerTls

#: Connections for requests in lanes; long polls and streams have their own.
CONNECTIONS: Final = 16
#: Requests that may be in flight or wait.
_MAX_REQUESTS: Final = 20_000
#: Seconds between two attempts: the first wait, and the longest.
_PAUSE: Final = (0.05, 1.0)
_CONNECT_WITHIN: Final = 5.0
#: Seconds that pending requests have to be answered when the peer closes.
_GRACE: Final = 3.0

_BROKEN: Final = (OSError, TimeoutError, EOFError, h11.RemoteProtocolError, h11.LocalProtocolError)


class OutgoingRequest:
    """One request, decoded from its frames."""

    def __init__(self, frames: Frames) -> None:
        self.tag, self.lane, self.mode, self.method, self.target, head, self.body = frames
        pairs = (line.partition(b": ") for line in bytes(head).split(b"\n") if line)
        self.headers = [(name, text) for name, _, text in pairs]

    @property
    def is_stream(self) -> bool:
        """Whether the answer is an event stream."""
        return self.mode in (b"stream", b"first")


class HttpRequester:
    """A transport whose messages are requests, and answers and events in return."""

    #: It reconnects and repeats requests by itself.
    heals_itself = True

    def __init__(
        self,
        endpoint: str,
        *,
        tls: PeerTls | None = None,
        token: str = "",
        token_file: Path | None = None,
    ) -> None:
        """Prepare.

        Args:
            endpoint: the broker's HTTP endpoint; several addresses are separated by commas.
            tls: certificates and the trusted authority; None: no encryption.
            token: a bearer token for every request.
            token_file: a file with a bearer token that is renewed: it is read for each request.

        """
        self._addresses = Addresses(endpoint)
        self._peer_tls = tls
        self._tls = tls.context() if tls is not None else None
        #: Why the broker refuses this peer, if that is known.
        self.refusal = ""
        #: The probable cause while attempts fail; they continue.
        self.connection_hint = ""
        self._token, self._token_file = token, token_file
        if token or token_file:
            hosts = [urlsplit(each).hostname or "" for each in self._addresses.all]
            if tls is None and not all(map(is_loopback, hosts)):
                raise ValueError("a token is sent only over TLS; use https://")
        self._wake: Callable[[], None] = lambda: None
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._idle: list[HttpConnection] = []
        #: Connections of requests and streams that are under way.
        self._in_use: set[HttpConnection] = set()
        self._lanes: defaultdict[bytes, deque[OutgoingRequest]] = defaultdict(deque)
        self._under_way: set[bytes] = set()
        self._streams: dict[bytes, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(CONNECTIONS)
        #: Cleared while a stream of mode `first` is not open yet: requests wait for it.
        self._may_send = asyncio.Event()
        self._may_send.set()
        #: Set whenever a request was answered.
        self._answered = asyncio.Event()
        self._is_closing = False

    async def open(self, wake: Callable[[], None]) -> str:
        """Start; each request connects when it needs to."""
        self._wake = wake
        place = self._addresses.current.partition("://")[2]
        return f"{'https' if self._tls else 'http'}://{place}"

    # --- requests -----------------------------------------------------------------------------

    def send(self, address: Address, frames: Frames) -> Sent:
        """Start a request or queue it in its lane."""
        request = OutgoingRequest(frames)
        if request.is_stream:
            self._open_stream(request)
        elif request.tag not in self._under_way:
            if len(self._under_way) >= _MAX_REQUESTS:
                return Sent.FULL
            self._under_way.add(request.tag)
            self._start(request)
        return Sent.YES

    def _start(self, request: OutgoingRequest) -> None:
        if request.mode == b"last":
            self._task(self._ask_last(request))
        elif not request.lane:
            self._task(self._ask(request))
        else:
            lane = self._lanes[request.lane]
            lane.append(request)
            if len(lane) == 1:
                self._task(self._run_lane(request.lane))

    def _task(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_lane(self, name: bytes) -> None:
        lane = self._lanes[name]
        while lane:
            await self._may_send.wait()
            async with self._room:
                await self._ask(lane[0])
            lane.popleft()
        del self._lanes[name]
        self._answered.set()

    async def _ask_last(self, request: OutgoingRequest) -> None:
        await self._wait_while(lambda: bool(self._lanes))
        await self._ask(request)

    async def _wait_while(self, is_busy: Callable[[], bool]) -> None:
        """Wait while a condition holds; it is checked after each answer."""
        while is_busy():
            self._answered.clear()
            await self._answered.wait()

    async def _ask(self, request: OutgoingRequest) -> None:
        """Repeat a request until it is answered."""
        status, body = await self._until_done(lambda: self._exchange(request))
        self._under_way.discard(request.tag)
        self._answered.set()
        self._arrive([bytes(request.tag), str(status).encode(), body])

    async def _exchange(self, request: OutgoingRequest) -> tuple[int, bytes]:
        headers = self._credentials() + request.headers
        connection = self._idle.pop() if self._idle else await self._connect()
        self._in_use.add(connection)
        try:
            status = await connection.ask(request.method, request.target, headers, request.body)
            body = b"".join([piece async for piece in connection.body()])
            self._note_refusal(status, body)
            if connection.is_reusable() and not self._is_closing:
                self._idle.append(connection)
                return status, body
        except BaseException as error:
            connection.close()
            if connection.is_used:
                # The broker may have closed it before the request: retry on a new connection.
                self._drop_idle()
            elif isinstance(error, _BROKEN):
                self._leave(connection.address)
            raise
        finally:
            self._in_use.discard(connection)
        connection.close()
        return status, body

    def _credentials(self) -> list[tuple[bytes, bytes]]:
        """Return the header with the token as it is now."""
        token = self._token
        if self._token_file is not None:
            try:
                token = self._token_file.read_text().strip()
            except OSError as error:
                self.connection_hint = f"cannot read the token in {self._token_file}: {error}"
                raise
        return [(b"authorization", f"Bearer {token}".encode())] if token else []

    def _note_refusal(self, status: int, body: bytes) -> None:
        """Remember the broker's reason if it rejects the credentials."""
        self.refusal = self.connection_hint = ""
        self._addresses.answered()
        if status in (401, 421) or (status == 403 and b'"code":"forbidden"' in body):
            try:
                self.refusal = str(json.loads(body)["detail"])
            except (ValueError, KeyError, TypeError):
                self.refusal = f"the broker answers {status}"

    def _note_failure(self, error: Exception) -> None:
        """Remember why an attempt failed, if that explains more than a lost connection."""
        if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return
        if isinstance(error, ssl.SSLError):
            other = f"no TLS with the broker: {getattr(error, 'reason', '') or error}"
            self.refusal = str(error) if isinstance(error, HandshakeFailed) else other
        elif isinstance(error, h11.RemoteProtocolError):
            is_known = "the port speaks" in str(error)
            other = "the answer is not HTTP; if the broker has TLS, use https://"
            self.refusal = str(error) if is_known else other
        elif isinstance(error, EOFError) and self._tls is None:
            # A proxy in front of a broker that is down does the same, so attempts continue.
            self.connection_hint = (
                "it closes connections without an answer; if it has TLS, use https://"
            )

    def _drop_idle(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _until_done(self, attempt: Callable[[], Coroutine[object, object, object]]) -> Any:
        pause = _PAUSE[0]
        while True:
            try:
                return await attempt()
            except _BROKEN as error:
                self._note_failure(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PAUSE[1])

    async def _connect(self) -> HttpConnection:
        """Connect to the current address; if that fails, the next attempt uses the next one."""
        address = self._addresses.current
        place = urlsplit(address)
        host, port = place.hostname or "127.0.0.1", place.port or 80
        try:
            async with asyncio.timeout(self._addresses.patience or _CONNECT_WITHIN):
                ends = await asyncio.open_connection(host, port, ssl=self._tls)
        except OSError as error:
            self._leave(address)
            raise await self._explained(error, host, port) from None
        return HttpConnection(*ends, address)

    async def _explained(self, error: OSError, host: str, port: int) -> OSError:
        """Return a failed handshake with its reason in words; other errors as they are."""
        is_lost = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        if self._peer_tls is None or is_lost or not isinstance(error, ssl.SSLError):
            return error
        text = await asyncio.to_thread(explain, error, self._peer_tls, host, port)
        return HandshakeFailed(error.errno, text)

    def _leave(self, address: str) -> None:
        """Move on, unless another request did so already."""
        if address == self._addresses.current:
            self._addresses.move_on()

    def move_on(self) -> None:
        """Leave a silent address for the next one; requests under way are repeated there."""
        if len(self._addresses.all) > 1:
            self._addresses.move_on()
            self._drop_idle()
            for connection in self._in_use:
                connection.abort()

    # --- streams ------------------------------------------------------------------------------

    def _open_stream(self, request: OutgoingRequest) -> None:
        """Start a stream; it replaces an older one of the same tag."""
        previous = self._streams.pop(request.tag, None)
        if previous is not None:
            previous.cancel()
        if request.mode == b"first":
            self._may_send.clear()
        self._streams[request.tag] = self._task(self._keep_open(request))

    async def _keep_open(self, request: OutgoingRequest) -> None:
        stream = SseReader(request.headers)
        while True:
            with contextlib.suppress(*_BROKEN):
                await self._read_stream(request, stream)
            # Requests wait for the first attempt only; a reopened stream asks for missed events.
            self._may_send.set()
            await asyncio.sleep(_PAUSE[1] / 4)

    async def _read_stream(self, request: OutgoingRequest, stream: SseReader) -> None:
        headers = self._credentials() + stream.headers()
        connection = await self._connect()
        self._in_use.add(connection)
        try:
            status = await connection.ask(b"GET", request.target, headers, b"")
            if status != 200:
                return
            self._arrive([bytes(request.tag), b"open"])
            self._may_send.set()
            async for piece in connection.body():
                for name, data in stream.feed(piece):
                    self._arrive([bytes(request.tag), b"event", name, data])
        finally:
            self._in_use.discard(connection)
            connection.close()

    # --- the rest of a transport --------------------------------------------------------------

    def _arrive(self, frames: list[bytes]) -> None:
        self._arrived.append((b"", frames))
        self._wake()

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take what has arrived."""
        return pop_messages(self._arrived, limit, self._wake)

    def flush(self) -> None:
        """Nothing is gathered here."""

    async def close(self) -> None:
        """Give pending requests a short time to be answered, then close."""
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            # A refused peer gets no answers: do not wait.
            async with asyncio.timeout(0 if self.refusal else _GRACE):
                await self._wait_while(lambda: bool(self._lanes) or b"leave" in self._under_way)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._drop_idle()
