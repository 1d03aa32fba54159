"""A transport of the simulation: an inbox that the network fills, and sends into the network."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from dragoman.testing.network import Network
from dragoman.transports.base import Sent

#: (link, address) -> the peer's name and the function that receives; None: no peer is there.
Deliver = Callable[[str, Any], tuple[str, Callable[[Any], None]] | None]


class SimTransport:
    """One link of the simulated broker. Addresses and messages are whatever its side uses."""

    def __init__(self, link: str, network: Network, deliver: Deliver) -> None:
        self._link = link
        self._network = network
        self._deliver = deliver
        self._inbox: deque[tuple[object, object]] = deque()
        self.wake: Callable[[], None] = lambda: None

    async def open(self, wake: Callable[[], None]) -> str:
        """Call `wake` whenever there may be something to drain."""
        self.wake = wake
        return f"memory:{self._link}"

    def arrive(self, address: object, message: object) -> None:
        """Put a message into the inbox."""
        self._inbox.append((address, message))
        self.wake()

    def drain(self, limit: int) -> Iterator[tuple[Any, Any]]:
        """Yield what has arrived."""
        for _ in range(min(limit, len(self._inbox))):
            yield self._inbox.popleft()
        if self._inbox:
            self.wake()

    def send(self, address: object, frames: object) -> Sent:
        """Send a message into the network, if its peer is there."""
        found = self._deliver(self._link, address)
        if found is None:
            return Sent.GONE
        self._network.send("broker", found[0], found[1], frames)
        return Sent.YES

    def flush(self) -> None:
        """Do nothing: `send` hands the message over immediately."""

    async def close(self) -> None:
        """Do nothing."""
