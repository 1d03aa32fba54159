"""What a mechanism of ZMTP is, and the one that proves nothing: NULL.

A mechanism is one connection's handshake: commands in, commands out, until the other end's
properties are known. Where it also encrypts, it seals and unseals every frame afterwards.
"""

from collections.abc import Callable
from typing import Final, Protocol

from dragoman.transports.base import Key
from dragoman.transports.zmtp_wire import ROUTER, command, read_command, read_properties

#: Flags and body of a frame as it was meant, from the bytes that came; and the way back.
Unseal = Callable[[bytes], tuple[int, bytes]]
Seal = Callable[[int, bytes], bytes]


#: Reasons that several of those who take part can have.
BROKEN_OFF: Final = "handshake broken off"
NO_CURVE: Final = "no CURVE, or another broker's key"


class ConnectionRejected(Exception):
    """Whoever is there cannot be talked to: why, in words worth counting, and what it is told."""

    def __init__(self, why: str, answer: bytes = b"") -> None:
        super().__init__(why)
        self.why = why
        #: A command that is sent before the end, or nothing.
        self.answer = answer


class Mechanism(Protocol):
    """One connection's handshake, from the listener's end."""

    #: What it goes by in a greeting.
    name: bytes
    is_server: bool
    #: What the other end has proved, once it has.
    key: Key
    #: What the other end says of itself; None until the handshake is over.
    properties: dict[bytes, bytes] | None
    #: Set where frames are encrypted.
    unseal: Unseal | None
    seal: Seal | None

    def begin(self) -> list[bytes]:
        """Return the commands to be said once both have greeted."""
        ...

    def receive(self, body: bytes) -> list[bytes]:
        """Take a command of the handshake; return those to answer with. Raises
        `ConnectionRejected`.
        """
        ...


class Null:
    """No proof, no secrets: each end says READY with its properties."""

    name = b"NULL"
    is_server = False
    key: Key = ""
    unseal: Unseal | None = None
    seal: Seal | None = None

    def __init__(self) -> None:
        self.properties: dict[bytes, bytes] | None = None

    def begin(self) -> list[bytes]:
        """Introduce ourselves."""
        return [command(b"READY", ROUTER)]

    def receive(self, body: bytes) -> list[bytes]:
        """Hear the other end introduce itself."""
        name, data = read_command(body)
        found = read_properties(data) if name == b"READY" else None
        if found is None:
            raise ConnectionRejected(BROKEN_OFF)
        self.properties = found
        return []
