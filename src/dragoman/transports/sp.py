"""The replier's end of SP's request and reply (nanomsg, NNG), on asyncio: TCP, TLS and IPC.

Many requests may be open at once on each connection, and each is answered by its own address.

An address is 8 bytes that name the connection, then the request's backtrace: words of 4 bytes, the
last of which (top bit set) is the requester's request ID. The same request sent again has the
same address. When a connection ends, `drain` yields `(connection, [])`: its 8 bytes and no frame.
That comes after all messages of the connection, and only if there were any.

Everything is bounded, see `line.ConnectionLimits`. What one connection says and hears is in
`sp_connection`,
who listens in `listening`; here is what waits to be drained, and beyond which bound answers are
refused (`Sent.FULL`).
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

    With `tls` those on TCP speak TLS and nothing else, as NNG does at `tls+tcp://`; every peer has
    a certificate then, and `admits` is asked with its key.
    """

    def __init__(
        self,
        endpoints: str,
        bounds: ConnectionLimits | None = None,
        *,
        tls: ServerTls | None = None,
        admits: Admits | None = None,
    ) -> None:
        super().__init__(endpoints, bounds or ConnectionLimits(), admits)
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
            within=self.bounds.greeting,
            at_once=self.bounds.ungreeted,
        )
        return handshakes.protocol

    def _listens(self, number: int, fd: int) -> None:
        if number in self._handshakes:
            self._handshakes[number].attach(fd)

    async def close(self) -> None:
        """Break off handshakes, then close as every listener does."""
        for handshakes in self._handshakes.values():
            handshakes.close()
        await super().close()

    # --- the transport ------------------------------------------------------------------------

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

    def key_of(self, address: Address) -> Key:
        """Return the key that the connection of this address has proved."""
        connection = self._connections.get(address[:CONNECTION])
        return "" if connection is None else connection.key

    # --- what connections tell ----------------------------------------------------------------

    def next_name(self) -> bytes:
        """Name a connection, differently in every process."""
        return self._process + (next(self._count) & 0xFFFFFFFF).to_bytes(4)

    def admit(self, line: SpConnection) -> bool:
        """Let a new connection in, if there is room and its key may."""
        if self.admits is not None and not self.admits(line.key):
            self.note("key refused", line)
            return False
        if not super().admit(line):
            return False
        self._connections[line.name] = line
        return True

    def take(self, connection: SpConnection, address: Address, body: bytes) -> None:
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

    def _released(self, line: SpConnection) -> None:
        """Say to whoever drains that a connection has ended."""
        self._held.pop(line, None)
        del self._connections[line.name]
        if line.has_spoken:
            if not self._arrived:
                self._wake()
            self._arrived.append((line.name, []))

    def _count_trouble(self, why: str) -> None:
        self.trouble[why] += 1
