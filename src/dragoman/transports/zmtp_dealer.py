"""A peer's end of one ZMTP connection, without a socket: a DEALER, with NULL or CURVE.

Bytes go in; messages and bytes to write come out. `dealer` has a socket for it. The relay of a
worker has the socket in another process. The broker's end is in `zmtp_connection`.
"""

from typing import Final

from dragoman.transports.base import Frames
from dragoman.transports.zmtp_mechanism import (
    BROKEN_OFF,
    ConnectionRejected,
    Null,
    PeerMechanism,
    Seal,
    Unseal,
)
from dragoman.transports.zmtp_wire import (
    COMMAND,
    GREETING,
    LONG,
    MORE,
    OPENING,
    SIGNATURE,
    add_message,
    command,
    frame,
    last_head,
    mechanism_of,
    properties,
    read_command,
    rest_of_greeting,
)

_NOT_ZMTP: Final = "no ZeroMQ"
#: Reasons of a rejection: the other end wants another mechanism, or it refuses this peer.
MISMATCH: Final = "another mechanism"
REFUSED: Final = "refused"


def dealer_properties(identity: bytes) -> bytes:
    """Encode the properties of a DEALER of ours."""
    return properties(Socket_Type=b"DEALER", Identity=identity, X_Retries=b"1")


class DealerSession:
    """One connection. Messages may be sent when `is_open`."""

    def __init__(self, mechanism: PeerMechanism | None, identity: bytes, max_frame: int) -> None:
        self._mechanism = mechanism or Null(dealer_properties(identity))
        self._max_frame = max_frame
        self.is_open = False
        self._has_greeted = False
        self._frames: list[bytes] = []
        #: The bytes of an incomplete frame, and the size at which reading can continue.
        self._rest = bytearray()
        self._needed = 0
        self._out: list[bytes] = []
        self._seal: Seal | None = None
        self._unseal: Unseal | None = None

    def greeting(self) -> bytes:
        """Return the first bytes of the connection."""
        return OPENING + rest_of_greeting(self._mechanism.name, is_server=False)

    # --- reading ------------------------------------------------------------------------------

    def receive(self, data: bytes) -> tuple[list[list[bytes]], bytes]:
        """Read bytes; return complete messages and what to write. Raises `ConnectionRejected`."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return [], b""
            data = bytes(self._rest)
            self._rest.clear()
        messages: list[list[bytes]] = []
        at = 0 if self._has_greeted else self._greet(data)
        if self._has_greeted:
            at = self._read(data, at, messages)
        if at < len(data):
            self._rest += data[at:]
        out, self._out = self._out, []
        return messages, b"".join(out)

    def _greet(self, data: bytes) -> int:
        if data[:1] != SIGNATURE[:1]:
            raise ConnectionRejected(_NOT_ZMTP)
        if len(data) < GREETING:
            self._needed = GREETING
            return 0
        if mechanism_of(data) != self._mechanism.name:
            raise ConnectionRejected(MISMATCH)
        self._has_greeted = True
        self._send_commands(self._mechanism.begin())
        return GREETING

    def _read(self, data: bytes, at: int, messages: list[list[bytes]]) -> int:
        """Read every complete frame; return the offset of the rest."""
        size, frames, unseal = len(data), self._frames, self._unseal
        while size - at >= 2:
            flags = data[at]
            if flags & LONG:
                start = at + 9
                if start > size:
                    self._needed = 9
                    break
                end = start + int.from_bytes(data[at + 1 : start])
                if end - start > self._max_frame:
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
                self._handle_command(body)
                unseal = self._unseal
            elif not self.is_open:
                raise ConnectionRejected(BROKEN_OFF)
            else:
                frames.append(body)
                if not flags & MORE:
                    messages.append(frames)
                    self._frames = frames = []
        else:
            self._needed = 2
        return at

    def _handle_command(self, body: bytes) -> None:
        name, data = read_command(body)
        if name == b"ERROR":
            raise ConnectionRejected(BROKEN_OFF if self.is_open else REFUSED)
        if self.is_open:
            if name == b"PING":
                self._send_commands([command(b"PONG", data[2:])])
            return
        self._send_commands(self._mechanism.receive(body))
        if self._mechanism.properties is not None:
            self._seal, self._unseal = self._mechanism.seal, self._mechanism.unseal
            self.is_open = True

    # --- writing ------------------------------------------------------------------------------

    def _send_commands(self, commands: list[bytes]) -> None:
        for body in commands:
            if self._seal is None:
                self._out.append(frame(COMMAND, body))
            else:
                self._out.append(frame(0, self._seal(COMMAND, body)))

    def encode(self, frames: Frames, out: list[bytes]) -> None:
        """Append the bytes of one message to `out`."""
        seal = self._seal
        if seal is not None:
            for number, body in enumerate(frames, 1):
                # The flags are inside the box.
                box = seal(MORE if number < len(frames) else 0, body)
                out += (last_head(len(box)), box)
            return
        add_message(out, frames)
