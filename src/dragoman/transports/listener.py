"""A listener on asyncio: endpoints over TCP and IPC, and the connections they accept.

`ConnectionLimits` bounds everything: the connections, those that have not greeted, and the time a
greeting may take. The transports that subclass this decide what is read, queued and sent.
"""

import asyncio
import logging
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionLimits
from dragoman.transports.base import Admits, Key

log = logging.getLogger(__name__)

C = TypeVar("C", bound=AcceptedConnection)


class SharedEndpoint(Protocol):
    """The endpoint of another namespace, which hands over the connections of our keys."""

    def join(self, member: object) -> str:
        """Have the connections of our keys handed to a listener; return the endpoint."""
        ...

    def leave(self, member: object) -> None:
        """End that."""
        ...


#: Seconds that unsent bytes have to be written at the close.
_LINGER: Final = 1.0
#: Connections that may wait to be accepted: a whole fleet reconnects after a restart.
_BACKLOG: Final = 4096
#: Connections accepted in one turn of the event loop.
_AT_ONCE: Final = 8


class Listener(Generic[C]):
    """One or more endpoints, `tcp://host:port` or `ipc:///path`, separated by commas."""

    def __init__(
        self, endpoints: str, limits: ConnectionLimits, admits: Admits | None = None
    ) -> None:
        self.limits = limits
        self.admits = admits
        #: Refusals and failures, counted by reason.
        self.trouble: Counter[str] = Counter()
        self._endpoints = [e.strip() for e in endpoints.split(",") if e.strip()]
        self._servers: list[asyncio.Server] = []
        self._paths: list[str] = []
        self._wake: Callable[[], None] = _no_wake
        self._accepted: dict[C, None] = {}
        self._ungreeted: OrderedDict[C, asyncio.TimerHandle] = OrderedDict()
        self._dirty: dict[C, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        #: Returns the listener of the namespace that a key belongs to; None: this one.
        self.route: Callable[[Key], Self | None] = _own
        #: Set if this listener has no endpoint of its own.
        self.shared: SharedEndpoint | None = None

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._accepted)

    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        """Return the protocol factory for the connections of one endpoint."""
        raise NotImplementedError

    def _listens(self, number: int, fd: int) -> None:
        """Called when a TCP endpoint listens on this file descriptor."""

    def _released(self, connection: C) -> None:
        """Called when an admitted connection has ended."""

    # --- opening and closing ------------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Listen on every endpoint; return them with their real ports."""
        self._wake = wake
        if self.shared is not None:
            return self.shared.join(self)
        try:
            return ",".join([await self._listen_at(n, e) for n, e in enumerate(self._endpoints)])
        except BaseException:
            await self.close()
            raise

    async def _listen_at(self, number: int, endpoint: str) -> str:
        try:
            return await self._listen(number, endpoint)
        except OSError as error:
            cause = error.strerror or error
            raise OSError(error.errno, f"cannot listen on {endpoint}: {cause}") from None

    async def _listen(self, number: int, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        if parts.scheme == "ipc" and (parts.netloc or parts.path):
            return await self._listen_ipc(number, parts.netloc + parts.path)
        with suppress(ValueError):  # the port is not a number
            if parts.scheme == "tcp" and parts.hostname and parts.port is not None:
                return await self._listen_tcp(number, parts.hostname, parts.port)
        raise ValueError(f"{endpoint!r} is neither tcp://host:port nor ipc:///path")

    async def _listen_tcp(self, number: int, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        # As in libzmq, `*` means every IPv4 address; `[::]` means every IPv6 address.
        family, wanted = (socket.AF_INET, None) if host == "*" else (socket.AF_UNSPEC, host)
        found = await loop.getaddrinfo(
            wanted, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        make = self._protocol(number, False)
        server = await loop.create_server(make, *found[0][4][:2], backlog=_AT_ONCE)
        self._serve(server)
        self._listens(number, server.sockets[0].fileno())
        host, port = server.sockets[0].getsockname()[:2]
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    async def _listen_ipc(self, number: int, path: str) -> str:
        if _is_in_use(path):
            raise OSError(f"{path} is in use by another process")
        make = self._protocol(number, True)
        server = await asyncio.get_running_loop().create_unix_server(make, path, backlog=_AT_ONCE)
        self._serve(server)
        self._paths.append(path)
        return f"ipc://{path}"

    def _serve(self, server: asyncio.Server) -> None:
        """Keep a server, with a longer backlog than the number asyncio accepts in one turn."""
        self._servers.append(server)
        for each in server.sockets:
            with socket.fromfd(each.fileno(), each.family, each.type) as same:
                same.listen(_BACKLOG)

    async def close(self) -> None:
        """Stop listening, then close every connection once its bytes are written."""
        self.flush()
        if self.shared is not None:
            self.shared.leave(self)
        for server in self._servers:
            server.close()
        for connection in list(self._accepted):
            connection.transport.close()
        try:
            async with asyncio.timeout(_LINGER):
                await self._idle.wait()
        except TimeoutError:
            for connection in list(self._accepted):
                connection.transport.abort()
            await self._idle.wait()
        for server in self._servers:
            await server.wait_closed()
        for path in self._paths:
            _remove(path)
        self._servers, self._paths = [], []

    # --- connections --------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what was queued since the last flush, one write for each connection."""
        dirty, self._dirty = self._dirty, {}
        for connection in dirty:
            connection.flush()

    def cut(self, key: Key) -> None:
        """Abort every connection of a key."""
        for connection in [each for each in self._accepted if each.key == key]:
            connection.fail("cut off")

    def admit(self, connection: C) -> bool:
        """Keep a new connection if the limits allow it."""
        if len(self._accepted) >= self.limits.connections:
            self.note("too many connections", connection)
            return False
        self._accepted[connection] = None
        self._idle.clear()
        timer = asyncio.get_running_loop().call_later(
            self.limits.greeting, connection.fail, "no greeting"
        )
        self._ungreeted[connection] = timer
        if len(self._ungreeted) > self.limits.ungreeted:
            next(iter(self._ungreeted)).fail("gave way before it greeted")
        return True

    def hand_over(self, connection: C, other: Self) -> bool:
        """Give a connection to the listener of another namespace, if its limits allow it."""
        self.greeted(connection)
        if self._accepted.pop(connection, connection) is None and not self._accepted:
            self._idle.set()
        connection.owner = other
        return other.admit(connection)

    def greeted(self, connection: C) -> None:
        """Stop the greeting timer of a connection."""
        timer = self._ungreeted.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def release(self, connection: C) -> None:
        """Forget a connection that has ended."""
        self.greeted(connection)
        self._dirty.pop(connection, None)
        if connection not in self._accepted:
            return
        del self._accepted[connection]
        if not self._accepted:
            self._idle.set()
        self._released(connection)

    def note(self, reason: str, connection: Any) -> None:
        """Count a refusal or a failure by its reason."""
        self.trouble[reason] += 1
        log.info("%s: %s", connection, reason)


def _own(key: Key) -> None:
    """Route every key to the listener itself."""


def _no_wake() -> None:
    """Do nothing: `wake` before the listener is open."""


def _is_in_use(path: str) -> bool:
    """Return whether a process listens there; a socket file left behind is not in use."""
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
