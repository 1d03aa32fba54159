"""Listening on asyncio: endpoints over TCP and IPC, and the lines that others made to them.

Everything is bounded (`line.ConnectionLimits`): how many lines there are, how many may be there
that have not
introduced themselves yet, and for how long. What is said on a line, what waits to be drained and to
whom it is sent is for the transports that build on this.
"""

import asyncio
import logging
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionLimits
from dragoman.transports.base import Admits, Key

log = logging.getLogger(__name__)

L = TypeVar("L", bound=AcceptedConnection)

#: How long what was sent may take to leave at the close.
_LINGER: Final = 1.0
#: Connections that may wait to be accepted: a fleet that comes back after a restart.
_BACKLOG: Final = 4096
#: Connections accepted before everybody else has a turn.
_AT_ONCE: Final = 8


class Listener(Generic[L]):
    """One or more listening endpoints, written `tcp://host:port` or `ipc:///path`, by commas."""

    def __init__(
        self, endpoints: str, bounds: ConnectionLimits, admits: Admits | None = None
    ) -> None:
        self.bounds = bounds
        self.admits = admits
        #: What was refused or given up, by reason.
        self.trouble: Counter[str] = Counter()
        self._endpoints = [e.strip() for e in endpoints.split(",") if e.strip()]
        self._servers: list[asyncio.Server] = []
        self._paths: list[str] = []
        self._wake: Callable[[], None] = _nobody
        self._lines: dict[L, None] = {}
        self._ungreeted: OrderedDict[L, asyncio.TimerHandle] = OrderedDict()
        self._dirty: dict[L, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of each new connection at an endpoint."""
        raise NotImplementedError

    def _listens(self, number: int, fd: int) -> None:
        """Hear that an endpoint over TCP listens at this descriptor."""

    def _released(self, line: L) -> None:
        """Hear that a line has ended that had been let in."""

    # --- opening and closing ------------------------------------------------------------------

    async def open(self, wake: Callable[[], None]) -> str:
        """Listen on every endpoint; return them in full."""
        self._wake = wake
        try:
            return ",".join([await self._listen_at(n, e) for n, e in enumerate(self._endpoints)])
        except BaseException:
            await self.close()
            raise

    async def _listen_at(self, number: int, endpoint: str) -> str:
        try:
            return await self._listen(number, endpoint)
        except OSError as error:
            words = error.strerror or error
            raise OSError(error.errno, f"cannot listen on {endpoint}: {words}") from None

    async def _listen(self, number: int, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        if parts.scheme == "ipc" and (parts.netloc or parts.path):
            return await self._listen_ipc(number, parts.netloc + parts.path)
        with suppress(ValueError):  # a port that is no number
            if parts.scheme == "tcp" and parts.hostname and parts.port is not None:
                return await self._listen_tcp(number, parts.hostname, parts.port)
        raise ValueError(f"{endpoint!r} is neither tcp://host:port nor ipc:///path")

    async def _listen_tcp(self, number: int, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        # Everywhere means everywhere in IPv4, as with libzmq; `[::]` means the other.
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
        """Keep a server. What asyncio accepts at once is what it lets wait; more may wait here."""
        self._servers.append(server)
        for each in server.sockets:
            with socket.fromfd(each.fileno(), each.family, each.type) as same:
                same.listen(_BACKLOG)

    async def close(self) -> None:
        """Stop listening, let what was sent leave for a moment, and close every line."""
        self.flush()
        for server in self._servers:
            server.close()
        for line in list(self._lines):
            line.transport.close()
        try:
            await asyncio.wait_for(self._idle.wait(), _LINGER)
        except TimeoutError:
            for line in list(self._lines):
                line.transport.abort()
            await self._idle.wait()
        for server in self._servers:
            await server.wait_closed()
        for path in self._paths:
            _remove(path)
        self._servers, self._paths = [], []

    # --- lines --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write out what was gathered since the last flush, one write for each line."""
        dirty, self._dirty = self._dirty, {}
        for line in dirty:
            line.flush()

    def cut(self, key: Key) -> None:
        """End every line of a key."""
        for line in [each for each in self._lines if each.key == key]:
            line.fail("cut off")

    def admit(self, line: L) -> bool:
        """Let a new line in, if there is room."""
        if len(self._lines) >= self.bounds.connections:
            self.note("too many connections", line)
            return False
        self._lines[line] = None
        self._idle.clear()
        timer = asyncio.get_running_loop().call_later(
            self.bounds.greeting, line.fail, "no greeting"
        )
        self._ungreeted[line] = timer
        if len(self._ungreeted) > self.bounds.ungreeted:
            next(iter(self._ungreeted)).fail("gave way before it greeted")
        return True

    def greeted(self, line: L) -> None:
        """Stop the clock for a line that has introduced itself."""
        timer = self._ungreeted.pop(line, None)
        if timer is not None:
            timer.cancel()

    def release(self, line: L) -> None:
        """Forget a line that has ended."""
        self.greeted(line)
        self._dirty.pop(line, None)
        if line not in self._lines:
            return
        del self._lines[line]
        if not self._lines:
            self._idle.set()
        self._released(line)

    def note(self, why: str, line: Any) -> None:
        """Count what was refused or given up."""
        self.trouble[why] += 1
        log.info("%s: %s", line, why)


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
