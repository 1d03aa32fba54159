"""One ZeroMQ peer's connection: bytes to messages and back, within bounds.

Who may have which name and whose turn it is to be heard is the router's business (`zmtp`). Messages
wait in the connection's own inbox, so that nobody who says much is heard before those who say
little; while too much waits there, nothing more is read.
"""

from collections import deque
from typing import Final, Protocol

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionOwner
from dragoman.transports.base import Address, Frames
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
    command,
    frame,
    head,
    last_head,
    mechanism_of,
    read_command,
    rest_of_greeting,
)

#: Bytes of a frame before the handshake is over: nobody needs more to introduce itself.
_INTRODUCTION: Final = 8 * 1024
_FLAGS: Final = MORE | LONG | COMMAND
#: Frames of one message.
MAX_FRAMES: Final = 100_000
_UNDRAINED: Final = "undrained messages"
_NOT_ZMTP: Final = "no ZeroMQ"
#: Whoever wants another mechanism than ours, by whether ours is CURVE.
_OTHER: Final = ("another mechanism than NULL", NO_CURVE)


class ZmtpConnectionOwner(ConnectionOwner, Protocol):
    """What a connection tells its router."""

    def shake(self, connection: "ZmtpConnection", body: bytes) -> None:
        """Have a command of the handshake considered when it is its turn."""
        ...

    def name(self, connection: "ZmtpConnection", wanted: Address) -> bool:
        """Give a connection whose handshake is over its name, if it may have it."""
        ...

    def heard(self, connection: "ZmtpConnection") -> None:
        """Hear that messages wait in the inbox."""
        ...


class ZmtpConnection(AcceptedConnection):
    """One peer."""

    greeting = OPENING

    def __init__(
        self, router: ZmtpConnectionOwner, is_ipc: bool, mechanism: Mechanism, number: int = 0
    ) -> None:
        super().__init__(router, is_ipc)
        self.router = router
        #: Which of the router's endpoints it came to.
        self.number = number
        self.address: Address = b""
        self.inbox: deque[list[bytes]] = deque()
        self.inbox_bytes = 0
        #: Whether the handshake is over, and whether we ended the connection.
        self.is_open = False
        self.is_refused = False
        #: Whether a command of the handshake waits for its turn: no peer sends two at once.
        self.is_shaking = False
        #: Whether the router has it in line to be heard.
        self.is_in_line = False
        #: Whether it may be sent to; with keys not before it has spoken, see the router.
        self.may_hear = True
        self.has_ended = False
        self.mechanism = mechanism
        self._seal: Seal | None = None
        self._unseal: Unseal | None = None
        self._limit = _INTRODUCTION
        self._has_greeted = False
        self._is_greeted_in_full = False
        self._frames: list[bytes] = []
        self._gathered = 0
        #: What came of a frame that is not complete, and how much of it is needed to go on.
        self._rest = bytearray()
        self._needed = 0

    def __repr__(self) -> str:
        """Name it for the log."""
        return f"ZeroMQ peer {self.address!r} at {self.transport.get_extra_info('peername')}"

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember that it is over: what waits is still heard."""
        self.has_ended = True
        super().connection_lost(exc)

    def fail(self, why: str) -> None:
        """End it now, and hear nothing more of it."""
        self.is_refused = True
        self.inbox.clear()
        self._frames = []
        super().fail(why)

    def refuse(self, refused: ConnectionRejected) -> None:
        """End it, after it was told as much as it can understand."""
        self.is_refused = True
        self.host.note(refused.why, self)
        if refused.answer:
            self.transport.write(frame(COMMAND, refused.answer))
        self.transport.close()

    # --- reading ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take bytes in, and pass on the messages that are complete."""
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
            self.router.heard(self)

    def _gather(self, size: int) -> None:
        """Bound what one message may take in the making."""
        self._gathered += size
        bounds = self.host.bounds
        if self._gathered > bounds.waiting_bytes or len(self._frames) > MAX_FRAMES:
            raise ConnectionRejected("too large")

    # --- greetings ----------------------------------------------------------------------------

    def _greet(self, data: bytes) -> int:
        """Read the greeting; return where what follows it begins."""
        if data[0] != SIGNATURE[0] or (len(data) > 9 and not data[9] & 1):
            raise ConnectionRejected(_NOT_ZMTP)
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
        self._say(self.mechanism.begin())
        return GREETING

    def _greet_2(self, data: bytes) -> int:
        """Read the greeting of ZMTP 2: socket, then the name as a frame."""
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
        """Wait until so many bytes are there; nothing is used up until then."""
        self._needed = size
        return 0

    # --- frames -------------------------------------------------------------------------------

    def _read(self, data: bytes, at: int) -> int:
        """Read every complete frame; return where the rest begins."""
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
                    raise ConnectionRejected("too large")
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
                self._hear(body)
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

    def _hear(self, body: bytes) -> None:
        """Take a command: of the handshake, or a question whether we are there."""
        if not self.is_open:
            if self.is_shaking:
                raise ConnectionRejected(BROKEN_OFF)
            self.router.shake(self, body)
            return
        name, data = read_command(body)
        if name == b"PING":
            self._say([command(b"PONG", data[2:])])
        elif name == b"ERROR":
            raise ConnectionRejected(BROKEN_OFF)

    def shake(self, body: bytes) -> None:
        """Take a command of the handshake now. Raises `ConnectionRejected`."""
        self.is_shaking = False
        self._say(self.mechanism.receive(body))
        found = self.mechanism.properties
        if found is not None:
            if found.get(b"socket-type") not in PARTNERS:
                raise ConnectionRejected("no partner of a ROUTER")
            self.key = self.mechanism.key
            self._seal, self._unseal = self.mechanism.seal, self.mechanism.unseal
            self._open(found.get(b"identity", b""))

    def _open(self, wanted: Address) -> None:
        if len(wanted) > 255 or wanted[:1] == b"\0":
            raise ConnectionRejected("no name that a peer may have")
        if not self.router.name(self, wanted):
            raise ConnectionRejected("name taken")
        self.is_open = True
        self._limit = self.host.bounds.message + (OVERHEAD if self._seal else 0)
        self.host.greeted(self)

    # --- writing ------------------------------------------------------------------------------

    def _say(self, commands: list[bytes]) -> None:
        """Say commands at once, unless too much of what was said is unread."""
        if self.unread > self.host.bounds.unread_limit:
            raise ConnectionRejected("messages unread")
        for body in commands:
            if self._seal is None:
                self.transport.write(frame(COMMAND, body))
            else:
                self.transport.write(frame(0, self._seal(COMMAND, body)))

    def queue(self, frames: Frames) -> None:
        """Gather a message for the next flush."""
        if self._seal is not None:
            self._queue_sealed(frames, self._seal)
            return
        out, size = self.out, 0
        for body in frames[:-1]:
            length = len(body)
            out.append(head(length))
            out.append(body)
            size += length
        length = len(frames[-1])
        out.append(last_head(length))
        out.append(frames[-1])
        self.out_bytes += size + length

    def _queue_sealed(self, frames: Frames, seal: Seal) -> None:
        """Gather a message whose frames only the peer can read, their flags included."""
        sealed = [seal(MORE, body) for body in frames[:-1]]
        sealed.append(seal(0, frames[-1]))
        for box in sealed:
            size = len(box)
            self.out += (last_head(size), box)
            self.out_bytes += size

    # --- being drained ------------------------------------------------------------------------

    def hold_if_full(self) -> None:
        """Read nothing more while too much waits."""
        bounds = self.host.bounds
        if len(self.inbox) > bounds.waiting or self.inbox_bytes > bounds.waiting_bytes:
            self.hold(_UNDRAINED)

    def drained(self) -> None:
        """Read on."""
        self.inbox_bytes = 0
        if _UNDRAINED in self._holds:
            self.unhold(_UNDRAINED)
