"""A line: one connection that somebody made to a listener, whatever is spoken on it.

Here is what all of them share: when not to read, how writes gather until a flush, how a line ends.
What the bytes mean is for those who build on it; who listens and who may come in, for `listening`.
"""

import asyncio
import socket
from typing import Any, Protocol

from dragoman.transports.base import Key
from dragoman.transports.tls import proved


class ConnectionLimits:
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
        #: Bytes of one message, or of one frame where messages have several.
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
        #: Bytes that one peer may leave unread before its line is told so (`pause_writing`).
        self.unread = unread
        #: Bytes left unread beyond which more of them are refused.
        self.unread_limit = unread_limit


class ConnectionOwner(Protocol):
    """What a line tells, and whom."""

    bounds: ConnectionLimits

    def admit(self, line: Any) -> bool:
        """Let a new line in, or not."""
        ...

    def greeted(self, line: Any) -> None:
        """Hear that whoever is on the line has introduced itself as its protocol wants."""
        ...

    def release(self, line: Any) -> None:
        """Hear that a line has ended."""
        ...

    def note(self, why: str, line: Any) -> None:
        """Count what was refused or given up."""
        ...


class AcceptedConnection(asyncio.Protocol):
    """One connection."""

    #: What is said first, before anything was heard.
    greeting = b""

    def __init__(self, host: ConnectionOwner, is_ipc: bool) -> None:
        self.host = host
        self.transport: asyncio.Transport
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.has_spoken = False
        #: What the other end has proved.
        self.key: Key = ""
        self.is_ipc = is_ipc
        #: Why nothing is read at the moment; reading goes on when there is no reason left.
        self._holds: set[str] = set()

    # --- its life -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, unless there is no room."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.key = proved(transport)
        if not self.host.admit(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self.host.bounds.unread)
        if not self.is_ipc:
            keep_alive(transport.get_extra_info("socket"))
        transport.write(self.greeting)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the host that the line has ended."""
        self.host.release(self)

    def fail(self, why: str) -> None:
        """End a line that cannot be understood, or is not wanted."""
        self.host.note(why, self)
        self.transport.abort()

    # --- reading ------------------------------------------------------------------------------

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

    @property
    def unread(self) -> int:
        """Bytes that have not left."""
        return self.out_bytes + self.transport.get_write_buffer_size()

    def flush(self) -> None:
        """Write what was gathered, in one piece."""
        out, self.out, self.out_bytes = self.out, [], 0
        if not self.transport.is_closing():
            self.transport.write(b"".join(out))


def keep_alive(sock: Any) -> None:
    """Let the kernel find peers whose host has vanished, within a minute."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
