"""A transport inside one process: two ends without a network, for tests and embedded use."""

from collections import deque
from collections.abc import Callable, Iterator

from dragoman.transports.base import Address, Frames, Sent


class MemoryHub:
    """The broker's end. Peers are made with `connect`; each has a bounded inbox."""

    def __init__(self, bound: int = 10_000) -> None:
        self._bound = bound
        self._arrived: deque[tuple[Address, list[bytes]]] = deque()
        self._peers: dict[Address, MemoryPeer] = {}
        self._wake: Callable[[], None] = lambda: None

    def connect(self, address: Address) -> "MemoryPeer":
        """Make a peer; it replaces one with the same address."""
        peer = self._peers[address] = MemoryPeer(self, address)
        return peer

    def disconnect(self, address: Address) -> None:
        """Remove a peer; `send` to it answers `Sent.GONE`."""
        self._peers.pop(address, None)

    def arrive(self, address: Address, frames: Frames) -> None:
        """Take a message from a peer."""
        self._arrived.append((address, list(frames)))
        self._wake()

    async def open(self, wake: Callable[[], None]) -> str:
        """Start."""
        self._wake = wake
        return "memory://"

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        """Yield what has arrived."""
        for _ in range(min(limit, len(self._arrived))):
            yield self._arrived.popleft()
        if self._arrived:
            self._wake()

    def send(self, address: Address, frames: Frames) -> Sent:
        """Put a message into a peer's inbox."""
        peer = self._peers.get(address)
        if peer is None:
            return Sent.GONE
        if len(peer.inbox) >= self._bound:
            return Sent.FULL
        peer.inbox.append(list(frames))
        peer.wake()
        return Sent.YES

    def flush(self) -> None:
        """Do nothing: `send` delivers immediately."""

    async def close(self) -> None:
        """Remove every peer."""
        self._peers.clear()


class MemoryPeer:
    """A peer's end: an inbox, and a way to send to the broker."""

    def __init__(self, hub: MemoryHub, address: Address) -> None:
        self._hub = hub
        self.address = address
        self.inbox: deque[list[bytes]] = deque()
        self.wake: Callable[[], None] = lambda: None

    def say(self, frames: Frames) -> None:
        """Send a message to the broker."""
        self._hub.arrive(self.address, frames)
