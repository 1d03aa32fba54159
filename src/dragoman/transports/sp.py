"""The replier of SP's request/reply protocol (nanomsg, NNG), on asyncio: TCP, TLS and IPC.

Each connection may have many open requests; each request has its own address for the answer.

An address is the connection's name of 8 bytes, then the request's backtrace: words of 4 bytes, the
last of which (top bit set) is the requester's request ID. A resent request has the same address.
When a connection ends, `drain` yields `(connection, [])`: its 8 bytes and no frame. That comes
after all messages of the connection, and only if there were any.

`sp_connection` parses one connection, `listener` accepts them; this module queues what arrives, and
refuses answers (`Sent.FULL`) beyond `ConnectionLimits`.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from itertools import count

from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import Address, Admits, Frames, Key, Sent
from dragoman.transports.listener import Listener
from dragoman.transports.sp_connection import CONNECTION, SpConnection
from dragoman.transports.tls import ServerTls, TlsHandshakes


class SpReplier(Listener[SpConnection]):
    """One or more listening endpoints.

    With `tls`, TCP endpoints speak only TLS, as NNG does at `tls+tcp://`. Every peer must have a
    certificate then, and `admits` is called with its key.
    """

    def __init__(
        self,
        endpoints: str,
        limits: ConnectionLimits | None = None,
        *,
        tls: ServerTls | None = None,
        admits: Admits | None = None,
    ) -> None:
        super().__init__(endpoints, limits or ConnectionLimits(), admits)
        self._tls = tls
        self._handshakes: dict[int, TlsHandshakes] = {}
        self._process = os.urandom(4)
        self._count = count(1)
        self._connections: dict[bytes, SpConnection] = {}
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._arrived_bytes = 0
        self._held: dict[SpConnection, None] = {}

    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        def make() -> SpConnection:
            return SpConnection(self, is_ipc)

        if self._tls is None or is_ipc:
            return make
        self._handshakes[number] = handshakes = TlsHandshakes(
            self._tls.reloading_context(),
            make,
            self._count_trouble,
            within=self.limits.greeting,
            at_once=self.limits.ungreeted,
        )
        return handshakes.protocol

    def _listens(self, number: int, fd: int) -> None:
        if number in self._handshakes:
            self._handshakes[number].attach(fd)

    async def close(self) -> None:
        """Abort the handshakes, then close the listener."""
        for handshakes in self._handshakes.values():
            handshakes.close()
        await super().close()

    # --- the transport ------------------------------------------------------------------------

    def drain(self, limit: int) -> list[tuple[Address, list[bytes]]]:
        """Take at most `limit` messages, in order of arrival."""
        arrived = self._arrived
        taken = [arrived.popleft() for _ in range(min(limit, len(arrived)))]
        self._arrived_bytes -= sum(len(frames[0]) for _, frames in taken if frames)
        if arrived:
            self._wake()
        if self._held and not self._is_full(0.5):
            held, self._held = self._held, {}
            for connection in held:
                connection.resume_for("undrained messages")
        return taken

    def send(self, address: Address, frames: Frames) -> Sent:
        """Queue the answer to one request; `flush` writes it."""
        connection = self._connections.get(address[:CONNECTION])
        if connection is None or connection.transport.is_closing():
            return Sent.GONE
        if connection.unsent > self.limits.unsent_limit:
            self.note("answers unread", connection)
            return Sent.FULL
        connection.queue(address[CONNECTION:], b"".join(frames))
        self._dirty[connection] = None
        return Sent.YES

    def key_of(self, address: Address) -> Key:
        """Return the key that the connection of this address has proved."""
        connection = self._connections.get(address[:CONNECTION])
        return "" if connection is None else connection.key

    # --- called by connections ----------------------------------------------------------------

    def next_name(self) -> bytes:
        """Return a connection name that is unique across restarts."""
        return self._process + (next(self._count) & 0xFFFFFFFF).to_bytes(4)

    def admit(self, connection: SpConnection) -> bool:
        """Keep a new connection if its key and the limits allow it, or its namespace does."""
        other = self.route(connection.key) if connection.key else None
        if other is not None:
            connection.replier = other
            connection.name = other.next_name()
            return self.hand_over(connection, other)
        if self.admits is not None and not self.admits(connection.key):
            self.note("key refused", connection)
            return False
        if not super().admit(connection):
            return False
        self._connections[connection.name] = connection
        return True

    def take(self, connection: SpConnection, address: Address, body: bytes) -> None:
        """Queue a message to be drained; if the queue is full, pause its connection."""
        if not self._arrived:
            self._wake()
        self._arrived.append((address, [body]))
        self._arrived_bytes += len(body)
        connection.has_sent = True
        if self._is_full(1.0):
            self._held[connection] = None
            connection.pause_for("undrained messages")

    def _is_full(self, share: float) -> bool:
        return (
            len(self._arrived) > self.limits.undrained * share
            or self._arrived_bytes > self.limits.undrained_bytes * share
        )

    def _released(self, connection: SpConnection) -> None:
        """Queue the end of a connection to be drained."""
        self._held.pop(connection, None)
        del self._connections[connection.name]
        if connection.has_sent:
            if not self._arrived:
                self._wake()
            self._arrived.append((connection.name, []))

    def _count_trouble(self, reason: str) -> None:
        self.trouble[reason] += 1
