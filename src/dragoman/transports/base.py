"""What a transport is: the interface the server loop drives."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from ipaddress import ip_address
from typing import Protocol

Address = bytes
Frames = Sequence[bytes]
#: What somebody has proved to be: `scheme:value`, or "" for nothing. The schemes are `curve:` (a
#: Z85 public key), `tls:` (the SHA-256 of a certificate, in hex), `nkey:` and `token:` (its id).
Key = str
#: Asked at every handshake whether the key proved in it may come in.
Admits = Callable[[Key], bool]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host's address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def take(
    arrived: deque[tuple[Address, list[bytes]]], limit: int, wake: Callable[[], None]
) -> list[tuple[Address, list[bytes]]]:
    """Take at most `limit` messages out of a queue, and see to it that the rest is fetched too."""
    taken = [arrived.popleft() for _ in range(min(limit, len(arrived)))]
    if arrived:
        # Not at once: whoever is woken may drain on the spot, and would overtake this.
        asyncio.get_running_loop().call_soon(wake)
    return taken


class Sent(Enum):
    """What became of a message."""

    YES = "yes"
    FULL = "full"  #: the peer's queue is at its high-water mark: back-pressure
    GONE = "gone"  #: nobody has that address


class Transport(Protocol):
    """One endpoint of the broker.

    `wake` is called (in the loop's thread) whenever there may be something to drain.
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
        """Push out what was sent since the last flush, where the transport gathers writes."""
        ...

    async def close(self) -> None:
        """Let go of everything; messages already accepted get a short time to leave."""
        ...


class AuthenticatingTransport(Protocol):
    """A transport whose peers prove who they are before they are heard."""

    def key_of(self, address: Address) -> Key:
        """Return the key that whoever speaks from this address has proved."""
        ...

    def cut(self, key: Key) -> None:
        """Close every connection of that key now."""
        ...
