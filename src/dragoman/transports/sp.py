"""The replier's end of SP's request and reply (nanomsg, NNG), on asyncio: TCP, TLS and IPC.

Many requests may be open at once on each connection, and each is answered by its own address.

An address is 8 bytes that name the connection, then the request's backtrace: words of 4 bytes, the
last of which (top bit set) is the requester's request ID. The same request sent again has the
same address. When a connection ends, `drain` yields `(connection, [])`: its 8 bytes and no frame.
That comes after all messages of the connection, and only if there were any.

Everything is bounded, see `Bounds`. What one connection says and hears is in `sp_connection`; here
is who listens, what waits to be drained, and beyond which bound answers are refused (`Sent.FULL`).
"""

import asyncio
import logging
import os
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from itertools import count
from typing import Final
from urllib.parse import urlsplit

from dragoman.transports.base import Address, Admits, Frames, Key, Sent
from dragoman.transports.sp_connection import CONNECTION, Bounds, Connection
from dragoman.transports.tls import Handshakes, ServerTls

log = logging.getLogger(__name__)

#: How long answers may take to leave when the replier closes.
_LINGER: Final = 1.0


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
        self._connections: dict[bytes, Connection] = {}
        self._ungreeted: OrderedDict[Connection, asyncio.TimerHandle] = OrderedDict()
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._arrived_bytes = 0
        self._held: dict[Connection, None] = {}
        self._dirty: dict[Connection, None] = {}
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
        if self._tls is not None:
            self._handshakes[-1].listens(server.sockets[0].fileno())
        host, port = server.sockets[0].getsockname()[:2]
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    def _protocol(self) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of a new connection over TCP."""

        def make() -> Connection:
            return Connection(self, False)

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
        server = await loop.create_unix_server(lambda: Connection(self, True), path, backlog=1024)
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
        connection = self._connections.get(address[:CONNECTION])
        if connection is None or connection.transport.is_closing():
            return Sent.GONE
        if connection.unread > self.bounds.unread_limit:
            self.note("answers unread", connection)
            return Sent.FULL
        connection.queue(address[CONNECTION:], b"".join(frames))
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
        connection = self._connections.get(address[:CONNECTION])
        return "" if connection is None else connection.key

    def cut(self, key: Key) -> None:
        """Close every connection of a key."""
        for connection in [c for c in self._connections.values() if c.key == key]:
            connection.fail("cut off")

    # --- what connections tell ----------------------------------------------------------------

    def next_name(self) -> bytes:
        """Name a connection, differently in every process."""
        return self._process + (next(self._count) & 0xFFFFFFFF).to_bytes(4)

    def admit(self, connection: Connection) -> bool:
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

    def greeted(self, connection: Connection) -> None:
        """Stop the clock for a connection that has greeted."""
        timer = self._ungreeted.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def take(self, connection: Connection, address: Address, body: bytes) -> None:
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

    def release(self, connection: Connection) -> None:
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

    def note(self, why: str, connection: Connection) -> None:
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
