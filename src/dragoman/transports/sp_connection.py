"""One requester's connection: bytes to messages and back, within bounds, and when not to read.

Who listens, what waits to be drained and whom to let in is the replier's business (`sp`). A message
that is too large is read and thrown away while its connection lives on: closing it would only make
NNG send everything of that socket again. A peer that does not read its answers is not read from
either, so it loses nothing.
"""

from struct import Struct
from typing import Final, Protocol

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionOwner
from dragoman.transports.base import Address

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


class SpConnectionOwner(ConnectionOwner, Protocol):
    """What a connection tells, and whom."""

    def next_name(self) -> bytes:
        """Name a connection."""
        ...

    def take(self, connection: "SpConnection", address: Address, body: bytes) -> None:
        """Take a message in."""
        ...


class SpConnection(AcceptedConnection):
    """One requester."""

    greeting = REPLIER

    def __init__(self, replier: SpConnectionOwner, is_ipc: bool) -> None:
        super().__init__(replier, is_ipc)
        self.replier = replier
        self.name = replier.next_name()
        self._prefix = bytes([_IPC_MESSAGE]) if is_ipc else b""
        self._head = len(self._prefix) + _LENGTH.size
        self._is_greeted = False
        self._buffer = bytearray()
        #: Bytes of a message that is too large, still to be thrown away.
        self._skip = 0

    def __repr__(self) -> str:
        """Name it for the log."""
        return f"connection {self.name.hex()}"

    def fail(self, why: str) -> None:
        """End it, and read nothing of what it said last."""
        self._buffer.clear()
        self._skip = 0
        self._is_greeted = False
        super().fail(why)

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
            if self.is_ipc and data[at] != _IPC_MESSAGE:
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

    # --- writing ------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        self.hold("unread answers")

    def resume_writing(self) -> None:
        """Read again from a peer that has read."""
        self.unhold("unread answers")

    def queue(self, backtrace: bytes, body: bytes) -> None:
        """Gather an answer for the next flush."""
        length = len(backtrace) + len(body)
        self.out += (self._prefix, _LENGTH.pack(length), backtrace, body)
        self.out_bytes += length
