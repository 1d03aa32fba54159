"""One requester's connection: bytes to messages and back, within bounds, and when not to read.

Who listens, what waits to be drained and whom to let in is the replier's business (`sp`). A message
that is too large is read and thrown away while its connection lives on: closing it would only make
NNG send everything of that socket again. A peer that does not read its answers is not read from
either, so it loses nothing.
"""

import asyncio
import socket
from struct import Struct
from typing import Any, Final, Protocol

from dragoman.transports.base import Address, Key
from dragoman.transports.tls import proved

REQUESTER: Final = bytes.fromhex("0053500000300000")
REPLIER: Final = bytes.fromhex("0053500000310000")
#: The type byte that IPC puts before each length.
_IPC_MESSAGE: Final = 1
_LENGTH: Final = Struct(">Q")
_WORD: Final = 4
#: Bytes of a connection's name, which every address begins with.
CONNECTION: Final = 8
#: A request may come over so many devices; NNG allows 15 at most.
_MAX_HOPS: Final = 15


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


class Replier(Protocol):
    """What a connection tells, and whom."""

    bounds: Bounds

    def next_name(self) -> bytes:
        """Name a connection."""
        ...

    def admit(self, connection: "Connection") -> bool:
        """Let a new connection in, or not."""
        ...

    def greeted(self, connection: "Connection") -> None:
        """Hear that a connection has greeted."""
        ...

    def take(self, connection: "Connection", address: Address, body: bytes) -> None:
        """Take a message in."""
        ...

    def release(self, connection: "Connection") -> None:
        """Hear that a connection has ended."""
        ...

    def note(self, why: str, connection: "Connection") -> None:
        """Count what was refused or given up."""
        ...


class Connection(asyncio.Protocol):
    """One requester."""

    def __init__(self, replier: Replier, is_ipc: bool) -> None:
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
