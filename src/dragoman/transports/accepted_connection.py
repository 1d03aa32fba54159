"""One connection that a listener accepted, whatever protocol it carries.

Shared by all protocols: when reading pauses, how writes are batched until a flush, how a connection
ends. Subclasses give the bytes a meaning; `listener` accepts connections and applies the limits.
"""

import asyncio
import socket
from typing import Any, Protocol

from dragoman.transports.base import Key
from dragoman.transports.origins import ORIGINS
from dragoman.transports.tls import peer_key


class ConnectionLimits:
    """The resources that peers may use: counts, bytes and seconds."""

    def __init__(
        self,
        *,
        message: int = 32 * 1024 * 1024,
        connections: int = 10_000,
        ungreeted: int = 256,
        greeting: float = 5.0,
        undrained: int = 50_000,
        undrained_bytes: int = 256 * 1024 * 1024,
        unsent: int = 1024 * 1024,
        unsent_limit: int = 256 * 1024 * 1024,
    ) -> None:
        #: Bytes of one message, or of one frame where messages have several.
        self.message = message
        #: Open connections; one more is closed immediately.
        self.connections = connections
        #: Connections that have not greeted; one more closes the oldest of them.
        self.ungreeted = ungreeted
        #: Seconds a new connection has to greet.
        self.greeting = greeting
        #: Messages, and bytes, that wait to be drained; beyond them reading pauses.
        self.undrained = undrained
        self.undrained_bytes = undrained_bytes
        #: Bytes in the write buffer at which asyncio calls `pause_writing`.
        self.unsent = unsent
        #: Unsent bytes of one peer beyond which `send` answers `Sent.FULL`.
        self.unsent_limit = unsent_limit


class ConnectionOwner(Protocol):
    """What a connection calls on its listener."""

    limits: ConnectionLimits

    def admit(self, connection: Any) -> bool:
        """Return whether the listener keeps a new connection."""
        ...

    def greeted(self, connection: Any) -> None:
        """Record that the peer has completed its protocol's greeting."""
        ...

    def release(self, connection: Any) -> None:
        """Record that a connection has ended."""
        ...

    def note(self, reason: str, connection: Any) -> None:
        """Count a refusal or a failure by its reason."""
        ...


class AcceptedConnection(asyncio.Protocol):
    """One connection."""

    #: Written as soon as the connection is made.
    greeting = b""

    def __init__(self, owner: ConnectionOwner, is_ipc: bool) -> None:
        self.owner = owner
        self.transport: asyncio.Transport
        self.out: list[bytes] = []
        self.out_bytes = 0
        #: Whether a complete message has arrived.
        self.has_sent = False
        #: The key that the peer has proved.
        self.key: Key = ""
        self.is_ipc = is_ipc
        #: Reading is paused while this is not empty.
        self._pause_reasons: set[str] = set()

    # --- start and end ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the greeting, unless the listener refuses the connection."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.key = peer_key(transport)
        if not self.owner.admit(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self.owner.limits.unsent)
        if not self.is_ipc:
            keep_alive(transport.get_extra_info("socket"))
        transport.write(self.greeting)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the listener that the connection has ended."""
        self.owner.release(self)
        ORIGINS.forget(self.transport)

    def fail(self, reason: str) -> None:
        """Count the reason and abort the connection."""
        self.owner.note(reason, self)
        self.transport.abort()

    # --- reading ------------------------------------------------------------------------------

    def pause_for(self, reason: str) -> None:
        """Pause reading for this reason."""
        self._pause_reasons.add(reason)
        self.transport.pause_reading()

    def resume_for(self, reason: str) -> None:
        """Resume reading, unless another reason remains."""
        self._pause_reasons.discard(reason)
        if not self._pause_reasons and not self.transport.is_closing():
            self.transport.resume_reading()

    # --- writing ------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Bytes that have not been written to the socket."""
        return self.out_bytes + self.transport.get_write_buffer_size()

    def flush(self) -> None:
        """Write everything queued with one call."""
        out, self.out, self.out_bytes = self.out, [], 0
        if not self.transport.is_closing():
            self.transport.write(b"".join(out))


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel detect peers whose host has vanished, within a minute."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
