"""A transport without a network; the test is its other end."""

import asyncio
from collections.abc import Callable, Iterator

from dragoman.transports.base import Address, Frames, Sent


class ScriptedTransport:
    """Records what is sent; `outcome` decides what `send` returns."""

    def __init__(self) -> None:
        self.sent: list[Frames] = []
        self.arrived: list[list[bytes]] = []
        self.outcome = Sent.YES
        self.is_closed = False
        self.wake: Callable[[], None] = lambda: None

    def deliver(self, frames: Frames) -> None:
        """Make a message arrive."""
        self.arrived.append([bytes(frame) for frame in frames])
        self.wake()

    async def open(self, wake: Callable[[], None]) -> str:
        self.wake = wake
        return "scripted://"

    def drain(self, limit: int) -> Iterator[tuple[Address, list[bytes]]]:
        arrived, self.arrived = self.arrived, []
        yield from ((b"", frames) for frames in arrived)

    def send(self, address: Address, frames: Frames) -> Sent:
        if self.outcome is Sent.YES:
            self.sent.append(frames)
        return self.outcome

    def flush(self) -> None: ...

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.is_closed = True
