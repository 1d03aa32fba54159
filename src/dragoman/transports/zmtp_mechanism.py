"""The interface of a ZMTP security mechanism, and NULL, the one without security.

A mechanism is one connection's handshake: commands in, commands out, until the peer's properties
are known. If it encrypts, it seals and unseals every frame afterwards.
"""

from collections.abc import Callable
from typing import Final, Protocol

from dragoman.transports.base import Key
from dragoman.transports.zmtp_wire import ROUTER, command, read_command, read_properties

#: Decrypts a frame's body to its flags and plain body; and the reverse.
Unseal = Callable[[bytes], tuple[int, bytes]]
Seal = Callable[[int, bytes], bytes]


#: Reasons for a rejection that several modules share.
BROKEN_OFF: Final = "handshake broken off"
NO_CURVE: Final = "no CURVE, or another broker's key"


class ConnectionRejected(Exception):
    """The connection must end: the reason to count, and the last command to send."""

    def __init__(self, reason: str, answer: bytes = b"", pending: Key = "") -> None:
        super().__init__(reason)
        self.reason = reason
        #: A command to send before the end; empty for none.
        self.answer = answer
        #: A key that waits for approval: the end may come later, without the command.
        self.pending = pending


class PeerMechanism(Protocol):
    """One connection's handshake, at either end."""

    #: Its name in the greeting.
    name: bytes
    #: The peer's properties; None until the handshake is over.
    properties: dict[bytes, bytes] | None
    #: Set if frames are encrypted.
    unseal: Unseal | None
    seal: Seal | None

    def begin(self) -> list[bytes]:
        """Return the commands to send after the greetings."""
        ...

    def receive(self, body: bytes) -> list[bytes]:
        """Handle a handshake command; return the answers. Raises `ConnectionRejected`."""
        ...


class Mechanism(PeerMechanism, Protocol):
    """One connection's handshake, the listener's end."""

    is_server: bool
    #: The key that the peer has proved; empty before that.
    key: Key


class Null:
    """No authentication, no encryption: each end sends READY with its properties."""

    name = b"NULL"
    is_server = False
    key: Key = ""
    unseal: Unseal | None = None
    seal: Seal | None = None

    def __init__(self, own_properties: bytes = ROUTER) -> None:
        self._own_properties = own_properties
        self.properties: dict[bytes, bytes] | None = None

    def begin(self) -> list[bytes]:
        """Return our READY."""
        return [command(b"READY", self._own_properties)]

    def receive(self, body: bytes) -> list[bytes]:
        """Read the peer's READY."""
        name, data = read_command(body)
        found = read_properties(data) if name == b"READY" else None
        if found is None:
            raise ConnectionRejected(BROKEN_OFF)
        self.properties = found
        return []
