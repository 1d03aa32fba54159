"""What a transport is: the interface the server loop drives."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from ipaddress import ip_address
from typing import Protocol, Self

Address = bytes
Frames = Sequence[bytes]
#: The key that a peer has proved, as `scheme:value`; "" if it proved none. The schemes are `curve:`
#: (a Z85 public key), `tls:` (SHA-256 of a certificate, in hex), `nkey:` and `token:` (its id).
Key = str
#: Called at every handshake: whether the broker accepts a peer with this key.
Admits = Callable[[Key], bool]
#: Called with a refused key, and the name and address that its peer shows. Returns whether the key
#: waits for approval.
Refused = Callable[[Key, str], bool]


class OversizedFrame(bytes):
    """Stands for the last frame of a message, which is beyond the limit: its first bytes or none.

    The transport drops the rest as it arrives, so that the peer can be told which message it was.
    """

    size: int
    limit: int

    @classmethod
    def make(cls, size: int, limit: int, kept: bytes = b"") -> Self:
        """Create the stand-in of a frame of `size` bytes."""
        made = cls(kept)
        made.size, made.limit = size, limit
        return made


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host's address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def pop_messages(
    arrived: deque[tuple[Address, list[bytes]]], limit: int, wake: Callable[[], None]
) -> list[tuple[Address, list[bytes]]]:
    """Take at most `limit` messages out of a queue; if some remain, call `wake` soon."""
    taken = [arrived.popleft() for _ in range(min(limit, len(arrived)))]
    if arrived:
        # Not at once: `wake` may drain immediately, and its messages would overtake these.
        asyncio.get_running_loop().call_soon(wake)
    return taken


class Sent(Enum):
    """The outcome of `send`."""

    YES = "yes"
    FULL = "full"  #: the peer's queue is at its high-water mark: back-pressure
    GONE = "gone"  #: no peer has that address


class Transport(Protocol):
    """One endpoint of the broker.

    The transport calls `wake` in the loop's thread when there may be messages to drain.
    """

    async def open(self, wake: Callable[[], None]) -> str:
        """Bind or connect; return the endpoint in full, with the real port."""
        ...

    def drain(self, limit: int) -> Iterable[tuple[Address, list[bytes]]]:
        """Yield at most `limit` messages that have arrived, without waiting."""
        ...

    def send(self, address: Address, frames: Frames) -> Sent:
        """Send one message, without waiting."""
        ...

    def flush(self) -> None:
        """Write what was sent since the last flush, if the transport batches writes."""
        ...

    async def close(self) -> None:
        """Close everything; messages already accepted get a short time to be written."""
        ...


class AuthenticatingTransport(Protocol):
    """A transport whose peers prove a key before their first message is read."""

    def key_of(self, address: Address) -> Key:
        """Return the key that the peer at this address has proved."""
        ...

    def cut(self, key: Key) -> None:
        """Close every connection of that key now."""
        ...
