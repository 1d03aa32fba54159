"""One ZeroMQ peer's connection: bytes to messages and back, within limits.

The router (`zmtp`) assigns identities and decides whose messages are drained next. Each connection
has its own inbox, so that a busy peer cannot delay a quiet one. If the inbox is full, reading
pauses.
"""

from collections import deque
from typing import Final, Protocol

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionOwner
from dragoman.transports.base import Address, Frames, Key, OversizedFrame
from dragoman.transports.origins import ORIGINS
from dragoman.transports.recognition import wrong_protocol
from dragoman.transports.zmtp_curve import OVERHEAD
from dragoman.transports.zmtp_mechanism import (
    BROKEN_OFF,
    NO_CURVE,
    ConnectionRejected,
    Mechanism,
    Seal,
    Unseal,
)
from dragoman.transports.zmtp_wire import (
    COMMAND,
    GREETING,
    LONG,
    MORE,
    OPENING,
    PARTNERS,
    PARTNERS_2,
    ROUTER_2,
    SIGNATURE,
    add_message,
    command,
    frame,
    last_head,
    mechanism_of,
    read_command,
    rest_of_greeting,
)

#: Largest frame before the handshake is over: no handshake command needs more.
_INTRODUCTION: Final = 8 * 1024
_FLAGS: Final = MORE | LONG | COMMAND
#: Most frames of one message.
MAX_FRAMES: Final = 100_000
_UNDRAINED: Final = "undrained messages"
_NOT_ZMTP: Final = "no ZeroMQ"
_TOO_LARGE: Final = "too large"
#: An oversized frame is dropped up to this many times the limit; beyond it the connection ends.
_SKIPPED: Final = 16
#: The reason if the peer wants another mechanism, by whether ours is CURVE.
_OTHER: Final = ("another mechanism than NULL", NO_CURVE)


class ZmtpConnectionOwner(ConnectionOwner, Protocol):
    """What a connection calls on its router."""

    def schedule_handshake(self, connection: "ZmtpConnection", body: bytes) -> None:
        """Schedule `run_handshake` for a command."""
        ...

    def choose_namespace(self, connection: "ZmtpConnection") -> bool:
        """Hand a connection with a key over to its namespace; return whether it has room."""
        ...

    def assign_address(self, connection: "ZmtpConnection", wanted: Address) -> bool:
        """Give a connection its identity after the handshake; return whether it may have it."""
        ...

    def hold(self, connection: "ZmtpConnection", key: Key) -> bool:
        """Hold a connection whose key waits for approval; return False if there are too many."""
        ...

    def messages_arrived(self, connection: "ZmtpConnection") -> None:
        """Record that the inbox is not empty."""
        ...


class ZmtpConnection(AcceptedConnection):
    """One peer."""

    greeting = OPENING

    def __init__(
        self, router: ZmtpConnectionOwner, is_ipc: bool, mechanism: Mechanism, number: int = 0
    ) -> None:
        super().__init__(router, is_ipc)
        self.router = router
        #: The number of the endpoint that accepted it.
        self.number = number
        self.address: Address = b""
        self.inbox: deque[list[bytes]] = deque()
        self.inbox_bytes = 0
        #: Whether the handshake is over, and whether we ended the connection.
        self.is_open = False
        self.is_refused = False
        #: Whether a handshake command waits for its turn; a peer may not send two at once.
        self.has_handshake_due = False
        #: Whether the router has queued it to be drained.
        self.is_ready = False
        #: Whether messages may be sent to it; see the router for CURVE.
        self.may_receive = True
        self.has_ended = False
        self.mechanism = mechanism
        self._seal: Seal | None = None
        self._unseal: Unseal | None = None
        self._limit = _INTRODUCTION
        self._has_greeted = False
        self._is_greeted_in_full = False
        self._frames: list[bytes] = []
        self._gathered = 0
        #: The bytes of an incomplete frame, and the size at which reading can continue.
        self._rest = bytearray()
        self._needed = 0
        #: Bytes of an oversized frame that are still to be dropped.
        self._to_skip = 0

    def __repr__(self) -> str:
        """Name it for the log."""
        return f"ZeroMQ peer {self.address!r} at {ORIGINS.address_of(self.transport)}"

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the end; messages in the inbox are still drained."""
        self.has_ended = True
        super().connection_lost(exc)

    def fail(self, reason: str) -> None:
        """Abort the connection and drop its inbox."""
        self.is_refused = True
        self.inbox.clear()
        self._frames = []
        super().fail(reason)

    def refuse(self, refused: ConnectionRejected) -> None:
        """Close the connection after sending the rejection's last command, or hold it."""
        self.is_refused = True
        self.owner.note(refused.reason, self)
        if refused.pending and self.router.hold(self, refused.pending):
            return
        if refused.answer:
            self.transport.write(frame(COMMAND, refused.answer))
        self.transport.close()

    # --- reading ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse bytes; complete messages go to the inbox."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
            self._rest.clear()
        try:
            at = 0 if self._has_greeted else self._greet(data)
            if self._has_greeted:
                at = self._read(data, at)
            self._rest += data[at:]
            if self._frames:
                self._gather(len(data))
        except ConnectionRejected as refused:
            self.refuse(refused)
        if self.inbox:
            self.inbox_bytes += len(data)
            self.router.messages_arrived(self)

    def _gather(self, size: int) -> None:
        """Limit the size of an incomplete message."""
        self._gathered += size
        limits = self.owner.limits
        if self._gathered > limits.undrained_bytes or len(self._frames) > MAX_FRAMES:
            raise ConnectionRejected(_TOO_LARGE)

    # --- greetings ----------------------------------------------------------------------------

    def _greet(self, data: bytes) -> int:
        """Read the greeting; return the offset after it."""
        if data[0] != SIGNATURE[0] or (len(data) > 9 and not data[9] & 1):
            raise ConnectionRejected(wrong_protocol(_NOT_ZMTP, data))
        if len(data) < len(OPENING):
            return self._need(len(OPENING))
        if data[10] < 3:
            return self._greet_2(data)
        if not self._is_greeted_in_full:
            self._is_greeted_in_full = True
            mechanism = self.mechanism
            self.transport.write(rest_of_greeting(mechanism.name, mechanism.is_server))
        if len(data) < GREETING:
            return self._need(GREETING)
        if mechanism_of(data) != self.mechanism.name:
            raise ConnectionRejected(_OTHER[self.mechanism.is_server])
        self._has_greeted = True
        self._send_commands(self.mechanism.begin())
        return GREETING

    def _greet_2(self, data: bytes) -> int:
        """Read the greeting of ZMTP 2: socket type, then the identity as a frame."""
        at = len(OPENING)
        if len(data) < at + 3 or len(data) < at + 3 + data[at + 2]:
            return self._need(at + 3 if len(data) < at + 3 else at + 3 + data[at + 2])
        if self.mechanism.is_server:
            raise ConnectionRejected(_OTHER[True])
        if data[at] not in PARTNERS_2 or data[at + 1]:
            raise ConnectionRejected("no partner of a ROUTER")
        end = at + 3 + data[at + 2]
        self.transport.write(ROUTER_2)
        self._has_greeted = True
        self._open(data[at + 3 : end])
        return end

    def _need(self, size: int) -> int:
        """Wait until this many bytes have arrived; consume nothing until then."""
        self._needed = size
        return 0

    # --- frames -------------------------------------------------------------------------------

    def _read(self, data: bytes, at: int) -> int:
        """Read every complete frame; return the offset of the rest."""
        size, frames = len(data), self._frames
        unseal, is_open = self._unseal, self.is_open
        while size - at >= 2:
            flags = data[at]
            if flags > _FLAGS:
                raise ConnectionRejected(_NOT_ZMTP)
            if flags & LONG:
                start = at + 9
                if start > size:
                    self._needed = 9
                    break
                end = start + int.from_bytes(data[at + 1 : start])
                if end - start > self._limit:
                    at = self._skip_oversized(flags, start, end, size)
                    frames = self._frames
                    continue
            else:
                start = at + 2
                end = start + data[at + 1]
            if end > size:
                self._needed = end - at
                break
            body = data[start:end]
            at = end
            if unseal is not None:
                flags, body = unseal(body)
            if flags & COMMAND:
                if flags & MORE:
                    # RFC 37: a command is one frame.
                    raise ConnectionRejected(_NOT_ZMTP)
                self._handle_command(body)
                unseal, is_open = self._unseal, self.is_open
            elif not is_open:
                raise ConnectionRejected(BROKEN_OFF)
            else:
                frames.append(body)
                if not flags & MORE:
                    self.inbox.append(frames)
                    self._frames = frames = []
                    self._gathered = 0
        else:
            self._needed = 2
        return at

    def _skip_oversized(self, flags: int, start: int, end: int, size: int) -> int:
        """Drop the last frame of a message, but pass the message on; return the offset after it.

        With CURVE the flags are inside the box, so the frame counts as the last one.
        """
        length = end - start
        if not self.is_open or flags & (COMMAND | MORE) or length > _SKIPPED * self._limit:
            raise ConnectionRejected(_TOO_LARGE)
        self.owner.note(_TOO_LARGE, self)
        self.inbox.append([*self._frames, OversizedFrame.make(length, self._limit)])
        self._frames = []
        self._gathered = 0
        self._to_skip = max(0, end - size)
        return min(end, size)

    def _handle_command(self, body: bytes) -> None:
        """Handle a command: of the handshake, or PING or ERROR after it."""
        if not self.is_open:
            if self.has_handshake_due:
                raise ConnectionRejected(BROKEN_OFF)
            self.router.schedule_handshake(self, body)
            return
        name, data = read_command(body)
        if name == b"PING":
            self._send_commands([command(b"PONG", data[2:])])
        elif name == b"ERROR":
            raise ConnectionRejected(BROKEN_OFF)

    def run_handshake(self, body: bytes) -> None:
        """Handle a handshake command now. Raises `ConnectionRejected`."""
        self.has_handshake_due = False
        self._send_commands(self.mechanism.receive(body))
        found = self.mechanism.properties
        if found is not None:
            if found.get(b"socket-type") not in PARTNERS:
                raise ConnectionRejected("no partner of a ROUTER")
            self.key = self.mechanism.key
            if not self.router.choose_namespace(self):
                raise ConnectionRejected("no room in its namespace")
            self._seal, self._unseal = self.mechanism.seal, self.mechanism.unseal
            self._open(found.get(b"identity", b""))

    def _open(self, wanted: Address) -> None:
        if len(wanted) > 255 or wanted[:1] == b"\0":
            raise ConnectionRejected("no name that a peer may have")
        if not self.router.assign_address(self, wanted):
            raise ConnectionRejected("name taken")
        self.is_open = True
        self._limit = self.owner.limits.message + (OVERHEAD if self._seal else 0)
        self.owner.greeted(self)

    # --- writing ------------------------------------------------------------------------------

    def _send_commands(self, commands: list[bytes]) -> None:
        """Write commands immediately, unless the peer has too many unsent bytes."""
        if self.unsent > self.owner.limits.unsent_limit:
            raise ConnectionRejected("messages unread")
        for body in commands:
            if self._seal is None:
                self.transport.write(frame(COMMAND, body))
            else:
                self.transport.write(frame(0, self._seal(COMMAND, body)))

    def queue(self, frames: Frames) -> None:
        """Queue a message for the next flush."""
        if self._seal is not None:
            self._queue_sealed(frames, self._seal)
            return
        self.out_bytes += add_message(self.out, frames)

    def _queue_sealed(self, frames: Frames, seal: Seal) -> None:
        """Queue a message with encrypted frames; their flags are encrypted too."""
        sealed = [seal(MORE, body) for body in frames[:-1]]
        sealed.append(seal(0, frames[-1]))
        for box in sealed:
            size = len(box)
            self.out += (last_head(size), box)
            self.out_bytes += size

    # --- the inbox ----------------------------------------------------------------------------

    def pause_if_full(self) -> None:
        """Pause reading while the inbox is full."""
        limits = self.owner.limits
        if len(self.inbox) > limits.undrained or self.inbox_bytes > limits.undrained_bytes:
            self.pause_for(_UNDRAINED)

    def drained(self) -> None:
        """Resume reading: the inbox is empty."""
        self.inbox_bytes = 0
        if _UNDRAINED in self._pause_reasons:
            self.resume_for(_UNDRAINED)
