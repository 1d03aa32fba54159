"""The replier's end of SP's request and reply (nanomsg, NNG), on asyncio: TCP, TLS and IPC.

Many requests may be open at once on each connection, and each is answered by its own address.

An address is 8 bytes that name the connection, then the request's backtrace: words of 4 bytes, the
last of which (top bit set) is the requester's request ID. The same request sent again has the
same address. When a connection ends, `drain` yields `(connection, [])`: its 8 bytes and no frame.
That comes after all messages of the connection, and only if there were any.

Everything is bounded, see `Bounds`. A message that is too large is read and thrown away while its
connection lives on: closing it would only make NNG send everything of that socket again. A peer
that does not read its answers is not read from either, so it loses nothing; only beyond a last
bound are its answers refused (`Sent.FULL`).
"""

import asyncio
import logging
import os
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from itertools import count
from struct import Struct
from typing import Any, Final
from urllib.parse import urlsplit

from dragoman.transports.base import Address, Admits, Frames, Key, Sent
from dragoman.transports.tls import Handshakes, ServerTls, proved

log = logging.getLogger(__name__)

REQUESTER: Final = bytes.fromhex("0053500000300000")
REPLIER: Final = bytes.fromhex("0053500000310000")
#: The type byte that IPC puts before each length.
_IPC_MESSAGE: Final = 1
_LENGTH: Final = Struct(">Q")
_WORD: Final = 4
_CONNECTION: Final = 8
#: A request may come over so many devices; NNG allows 15 at most.
_MAX_HOPS: Final = 15
#: How long answers may take to leave when the replier closes.
_LINGER: Final = 1.0


class Bounds:
    """What peers may use up. Counts, bytes and seconds."""

    def __init__(
        self,
        *,
        message: int = 32 * 1024 * 1024,
        connections: int = 10_000,
        ungreeted: int = 256,
        greeting: float = 5.0,
        waiting: int = 50_000,
        waiting_bytes: int = 256 * 1024 * 1024,
        unread: int = 1024 * 1024,
        unread_limit: int = 256 * 1024 * 1024,
    ) -> None:
        #: Bytes of one message; a larger one is thrown away.
        self.message = message
        #: Connections at once; one more is closed at once.
        self.connections = connections
        #: Connections that have not greeted; the oldest gives way to one more.
        self.ungreeted = ungreeted
        #: Seconds a new connection has to greet.
        self.greeting = greeting
        #: Messages, and bytes, that wait to be drained; beyond them nothing is read.
        self.waiting = waiting
        self.waiting_bytes = waiting_bytes
        #: Bytes of answers one peer may leave unread before it is no longer read from.
        self.unread = unread
        #: Bytes of unread answers beyond which more of them are refused.
        self.unread_limit = unread_limit


class _Connection(asyncio.Protocol):
    """One requester."""

    def __init__(self, replier: "SpReplier", is_ipc: bool) -> None:
        self.replier = replier
        self.name = replier.next_name()
        self.transport: asyncio.Transport
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.has_spoken = False
        #: What the requester has proved.
        self.key: Key = ""
        self._is_ipc = is_ipc
        self._prefix = bytes([_IPC_MESSAGE]) if is_ipc else b""
        self._head = len(self._prefix) + _LENGTH.size
        self._is_greeted = False
        self._buffer = bytearray()
        #: Bytes of a message that is too large, still to be thrown away.
        self._skip = 0
        #: Why nothing is read at the moment; reading goes on when there is no reason left.
        self._holds: set[str] = set()

    # --- the connection's life ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, unless there is no room."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.key = proved(transport)
        if not self.replier.admit(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self.replier.bounds.unread)
        _keep_alive(transport.get_extra_info("socket"), self._is_ipc)
        transport.write(REPLIER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever drains that the connection has ended."""
        self.replier.release(self)

    def fail(self, why: str) -> None:
        """Close a connection that cannot be understood."""
        self.replier.note(why, self)
        self._buffer.clear()
        self._skip = 0
        self._is_greeted = False
        self.transport.abort()

    # --- reading ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take bytes in, and pass on the messages that are complete."""
        if self._skip:
            data = self._throw_away(data)
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed():
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        at = 0 if self._is_greeted else self._greeting(data)
        if self._is_greeted:
            at = self._messages(data, at)
            self._buffer += data[at:]

    def _throw_away(self, data: bytes) -> bytes:
        gone = min(self._skip, len(data))
        self._skip -= gone
        return data[gone:]

    def _needed(self) -> int:
        """How many bytes the first piece in the buffer takes."""
        if not self._is_greeted:
            return len(REQUESTER)
        if len(self._buffer) < self._head:
            return self._head
        (length,) = _LENGTH.unpack_from(self._buffer, len(self._prefix))
        return self._head + (int(length) if length <= self.replier.bounds.message else 0)

    def _greeting(self, data: bytes) -> int:
        """Check the greeting; return where the messages begin."""
        size = len(REQUESTER)
        if not REQUESTER.startswith(data[:size]):
            self.fail("bad greeting")
        elif len(data) < size:
            self._buffer += data
        else:
            self._is_greeted = True
            self.replier.greeted(self)
        return size

    def _messages(self, data: bytes, at: int) -> int:
        """Pass on each complete message; return where the rest begins."""
        head, size, limit = self._head, len(data), self.replier.bounds.message
        while size - at >= head:
            (length,) = _LENGTH.unpack_from(data, at + head - _LENGTH.size)
            if self._is_ipc and data[at] != _IPC_MESSAGE:
                self.fail("bad frame")
                return size
            start, end = at + head, at + head + length
            if length > limit:
                self.replier.note("too large", self)
                self._skip = max(0, end - size)
                at = min(end, size)
            elif end > size:
                break
            elif not self._message(data, start, end):
                return size
            else:
                at = end
        return at

    def _message(self, data: bytes, start: int, end: int) -> bool:
        """Pass one message on, with the address its answer has to go to."""
        body = start + _WORD
        while body <= end and not data[body - _WORD] & 0x80:
            body += _WORD
        if body > end or body - start > _MAX_HOPS * _WORD:
            self.fail("no request ID")
            return False
        self.replier.take(self, self.name + data[start:body], data[body:end])
        return True

    def hold(self, why: str) -> None:
        """Read nothing more for this reason."""
        self._holds.add(why)
        self.transport.pause_reading()

    def unhold(self, why: str) -> None:
        """Read on, if there is no other reason against it."""
        self._holds.discard(why)
        if not self._holds and not self.transport.is_closing():
            self.transport.resume_reading()

    # --- writing ------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        self.hold("unread answers")

    def resume_writing(self) -> None:
        """Read again from a peer that has read."""
        self.unhold("unread answers")

    @property
    def unread(self) -> int:
        """Bytes of answers that have not left."""
        return self.out_bytes + self.transport.get_write_buffer_size()

    def queue(self, backtrace: bytes, body: bytes) -> None:
        """Gather an answer for the next flush."""
        length = len(backtrace) + len(body)
        self.out += (self._prefix, _LENGTH.pack(length), backtrace, body)
        self.out_bytes += length

    def flush(self) -> None:
        """Write what was gathered, in one piece."""
        out, self.out, self.out_bytes = self.out, [], 0
        if not self.transport.is_closing():
            self.transport.write(b"".join(out))


def _keep_alive(sock: Any, is_ipc: bool) -> None:
    """Let the kernel find peers whose host has vanished, within a minute."""
    if is_ipc:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)


class SpReplier:
    """One or more listening endpoints, written `tcp://host:port` or `ipc:///path`, by commas.

    With `tls` those on TCP speak TLS and nothing else, as NNG does at `tls+tcp://`; every peer has
    a certificate then, and `admits` is asked with its key.
    """

    def __init__(
        self,
        endpoints: str,
        bounds: Bounds | None = None,
        *,
        tls: ServerTls | None = None,
        admits: Admits | None = None,
    ) -> None:
        self._tls = tls
        self._admits = admits
        self._handshakes: list[Handshakes] = []
        self.bounds = bounds or Bounds()
        #: What was refused or given up, by reason.
        self.trouble: Counter[str] = Counter()
        self._endpoints = [e.strip() for e in endpoints.split(",") if e.strip()]
        self._servers: list[asyncio.Server] = []
        self._paths: list[str] = []
        self._wake: Callable[[], None] = _nobody
        self._process = os.urandom(4)
        self._count = count(1)
        self._connections: dict[bytes, _Connection] = {}
        self._ungreeted: OrderedDict[_Connection, asyncio.TimerHandle] = OrderedDict()
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._arrived_bytes = 0
        self._held: dict[_Connection, None] = {}
        self._dirty: dict[_Connection, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    # --- the transport ------------------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Listen on every endpoint; return them in full."""
        self._wake = wake
        try:
            return ",".join([await self._listen(endpoint) for endpoint in self._endpoints])
        except BaseException:
            await self.close()
            raise

    async def _listen(self, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        if parts.scheme == "ipc" and (parts.netloc or parts.path):
            return await self._listen_ipc(parts.netloc + parts.path)
        if parts.scheme == "tcp" and parts.hostname and parts.port is not None:
            return await self._listen_tcp(parts.hostname, parts.port)
        raise ValueError(f"{endpoint!r} is neither tcp://host:port nor ipc:///path")

    async def _listen_tcp(self, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        wanted = None if host == "*" else host
        found = await loop.getaddrinfo(
            wanted, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        server = await loop.create_server(self._protocol(), *found[0][4][:2], backlog=1024)
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    def _protocol(self) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of a new connection over TCP."""

        def make() -> _Connection:
            return _Connection(self, False)

        if self._tls is None:
            return make
        greeting = self.bounds.greeting
        handshakes = Handshakes(
            self._tls.live(),
            make,
            self._count_trouble,
            within=greeting,
            at_once=self.bounds.ungreeted,
        )
        self._handshakes.append(handshakes)
        return handshakes.protocol

    async def _listen_ipc(self, path: str) -> str:
        if _is_in_use(path):
            raise OSError(f"{path} is in use by another process")
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(lambda: _Connection(self, True), path, backlog=1024)
        self._servers.append(server)
        self._paths.append(path)
        return f"ipc://{path}"

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take what has arrived, in order, at most `limit` messages."""
        arrived = self._arrived
        taken = [arrived.popleft() for _ in range(min(limit, len(arrived)))]
        self._arrived_bytes -= sum(len(frames[0]) for _, frames in taken if frames)
        if arrived:
            self._wake()
        if self._held and not self._is_full(0.5):
            held, self._held = self._held, {}
            for connection in held:
                connection.unhold("undrained messages")
        return taken

    def send(self, address: Address, frames: Frames) -> Sent:
        """Answer one request; it leaves with the next `flush`."""
        connection = self._connections.get(address[:_CONNECTION])
        if connection is None or connection.transport.is_closing():
            return Sent.GONE
        if connection.unread > self.bounds.unread_limit:
            self.note("answers unread", connection)
            return Sent.FULL
        connection.queue(address[_CONNECTION:], b"".join(frames))
        self._dirty[connection] = None
        return Sent.YES

    def flush(self) -> None:
        """Write out the answers gathered since the last flush, one write for each peer."""
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()

    async def close(self) -> None:
        """Stop listening, let answers leave for a moment, and close every connection."""
        self.flush()
        for server in self._servers:
            server.close()
        for handshakes in self._handshakes:
            handshakes.close()
        for connection in list(self._connections.values()):
            connection.transport.close()
        try:
            await asyncio.wait_for(self._idle.wait(), _LINGER)
        except TimeoutError:
            for connection in list(self._connections.values()):
                connection.transport.abort()
            await self._idle.wait()
        for server in self._servers:
            await server.wait_closed()
        for path in self._paths:
            _remove(path)
        self._servers, self._paths = [], []

    # --- keys ---------------------------------------------------------------------------------

    def key_of(self, address: Address) -> Key:
        """Return the key that the connection of this address has proved."""
        connection = self._connections.get(address[:_CONNECTION])
        return "" if connection is None else connection.key

    def cut(self, key: Key) -> None:
        """Close every connection of a key."""
        for connection in [c for c in self._connections.values() if c.key == key]:
            connection.fail("cut off")

    # --- what connections tell ----------------------------------------------------------------

    def next_name(self) -> bytes:
        """Name a connection, differently in every process."""
        return self._process + (next(self._count) & 0xFFFFFFFF).to_bytes(4)

    def admit(self, connection: _Connection) -> bool:
        """Let a new connection in, if there is room."""
        if len(self._connections) >= self.bounds.connections:
            self.note("too many connections", connection)
            return False
        if self._admits is not None and not self._admits(connection.key):
            self.note("key refused", connection)
            return False
        self._connections[connection.name] = connection
        self._idle.clear()
        timer = asyncio.get_running_loop().call_later(
            self.bounds.greeting, connection.fail, "no greeting"
        )
        self._ungreeted[connection] = timer
        if len(self._ungreeted) > self.bounds.ungreeted:
            next(iter(self._ungreeted)).fail("gave way before it greeted")
        return True

    def greeted(self, connection: _Connection) -> None:
        """Stop the clock for a connection that has greeted."""
        timer = self._ungreeted.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def take(self, connection: _Connection, address: Address, body: bytes) -> None:
        """Let a message wait to be drained."""
        if not self._arrived:
            self._wake()
        self._arrived.append((address, [body]))
        self._arrived_bytes += len(body)
        connection.has_spoken = True
        if self._is_full(1.0):
            self._held[connection] = None
            connection.hold("undrained messages")

    def _is_full(self, share: float) -> bool:
        return (
            len(self._arrived) > self.bounds.waiting * share
            or self._arrived_bytes > self.bounds.waiting_bytes * share
        )

    def release(self, connection: _Connection) -> None:
        """Forget a connection that has ended, and say so to whoever drains."""
        self.greeted(connection)
        self._dirty.pop(connection, None)
        self._held.pop(connection, None)
        if self._connections.pop(connection.name, None) is None:
            return
        if not self._connections:
            self._idle.set()
        if connection.has_spoken:
            if not self._arrived:
                self._wake()
            self._arrived.append((connection.name, []))

    def note(self, why: str, connection: _Connection) -> None:
        """Count what was refused or given up."""
        self._count_trouble(why)
        log.info("connection %s: %s", connection.name.hex(), why)

    def _count_trouble(self, why: str) -> None:
        self.trouble[why] += 1


def _nobody() -> None:
    """Stand in until somebody wants to be woken."""


def _is_in_use(path: str) -> bool:
    """Whether somebody listens there; a socket that was left behind is in nobody's use."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:
            return True
    return True


def _remove(path: str) -> None:
    """Remove the socket we listened on, unless another process has taken the path over."""
    if os.path.exists(path) and not _is_in_use(path):
        os.unlink(path)
