"""One requester's connection: bytes to messages and back, within limits.

The replier (`sp`) listens, admits peers and queues messages. Of a message that is too large only
the beginning is kept, and its connection stays open: if it were closed, NNG would resend everything
of that socket. If a peer does not read its answers, reading from it pauses, so it loses nothing.
"""

from struct import Struct
from typing import Final, Protocol

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionOwner
from dragoman.transports.base import Address, OversizedFrame
from dragoman.transports.recognition import wrong_protocol

REQUESTER: Final = bytes.fromhex("0053500000300000")
REPLIER: Final = bytes.fromhex("0053500000310000")
#: The type byte that IPC puts before each length.
_IPC_MESSAGE: Final = 1
_LENGTH: Final = Struct(">Q")
_WORD: Final = 4
#: Length of a connection's name, the first part of every address.
CONNECTION: Final = 8
#: Most devices that a request may pass; NNG allows 15.
_MAX_HOPS: Final = 15
#: Bytes kept of a message that is too large: its header says which one it is.
_KEPT: Final = 4096


class SpConnectionOwner(ConnectionOwner, Protocol):
    """What a connection calls on its replier."""

    def next_name(self) -> bytes:
        """Return a new connection name."""
        ...

    def take(self, connection: "SpConnection", address: Address, body: bytes) -> None:
        """Queue a message."""
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
        #: Bytes of a message that is too large, still to be dropped.
        self._skip = 0

    def __repr__(self) -> str:
        """Name it for the log."""
        return f"connection {self.name.hex()}"

    def fail(self, reason: str) -> None:
        """Abort the connection and drop its incomplete input."""
        self._buffer.clear()
        self._skip = 0
        self._is_greeted = False
        super().fail(reason)

    # --- reading ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse bytes; pass complete messages to the replier."""
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
        """Return how many bytes the first message in the buffer needs."""
        if not self._is_greeted:
            return len(REQUESTER)
        if len(self._buffer) < self._head:
            return self._head
        (length,) = _LENGTH.unpack_from(self._buffer, len(self._prefix))
        return self._head + self._kept(int(length))

    def _kept(self, length: int) -> int:
        """Return how many bytes of a message are kept: all, or its beginning if too large."""
        return length if length <= self.replier.limits.message else min(length, _KEPT)

    def _greeting(self, data: bytes) -> int:
        """Check the greeting; return the offset after it."""
        size = len(REQUESTER)
        if not REQUESTER.startswith(data[:size]):
            self.fail(wrong_protocol("bad greeting", data))
        elif len(data) < size:
            self._buffer += data
        else:
            self._is_greeted = True
            self.replier.greeted(self)
        return size

    def _messages(self, data: bytes, at: int) -> int:
        """Pass on each complete message; return the offset of the rest."""
        head, size = self._head, len(data)
        while size - at >= head:
            (length,) = _LENGTH.unpack_from(data, at + head - _LENGTH.size)
            if self.is_ipc and data[at] != _IPC_MESSAGE:
                self.fail("bad frame")
                return size
            start, end = at + head, at + head + self._kept(length)
            if end > size:
                break
            if not self._message(data, start, end, length):
                return size
            rest = at + head + length
            self._skip = max(0, rest - size)
            at = min(rest, size)
        return at

    def _message(self, data: bytes, start: int, end: int, length: int) -> bool:
        """Pass one message on, with the address for its answer."""
        body = start + _WORD
        while body <= end and not data[body - _WORD] & 0x80:
            body += _WORD
        if body > end or body - start > _MAX_HOPS * _WORD:
            self.fail("no request ID")
            return False
        kept = data[body:end]
        if length > self.replier.limits.message:
            self.replier.note("too large", self)
            kept = OversizedFrame.make(length, self.replier.limits.message, kept)
        self.replier.take(self, self.name + data[start:body], kept)
        return True

    # --- writing ------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Pause reading from a peer that does not read its answers."""
        self.pause_for("unread answers")

    def resume_writing(self) -> None:
        """Resume reading: the peer has read its answers."""
        self.resume_for("unread answers")

    def queue(self, backtrace: bytes, body: bytes) -> None:
        """Queue an answer for the next flush."""
        length = len(backtrace) + len(body)
        self.out += (self._prefix, _LENGTH.pack(length), backtrace, body)
        self.out_bytes += length
