"""Simulated connections between brokers: in order, until they stall or break.

A stalled connection delivers everything later. A broken one loses what is under way, except that
the receiver may still find some of it unread in the old connection; the broker that connected is
told.
"""

from collections.abc import Callable
from typing import Final

from dragoman.testing.world import World

_LATENCY: Final = 0.002
#: How long messages may lie unread in a connection that broke, in seconds.
_UNREAD: Final = 4.0

Arrive = Callable[[str, bytes, object], None]


class MeshConnection:
    """The connection from one broker (`dialler`) to another (`listener`)."""

    def __init__(self, world: World, dialler: str, listener: str, arrive: Arrive) -> None:
        self.world = world
        self.ends = (dialler, listener)
        self._arrive = arrive
        self._epoch = 0
        self._down_until = 0.0
        self._stalled_until = 0.0

    @property
    def is_down(self) -> bool:
        """Whether there is no connection now."""
        return self.world.now < self._down_until

    def other(self, end: str) -> str:
        """Return the broker at the other end."""
        return self.ends[1] if end == self.ends[0] else self.ends[0]

    def carry(self, source: str, frames: object) -> None:
        """Carry a message to the other end, in order."""
        to = self.other(source)
        at = self.world.now + _LATENCY
        self.world.at(at, self._deliver, self._epoch, source, to, frames)

    def _deliver(self, epoch: int, source: str, to: str, frames: object) -> None:
        if self.world.now < self._stalled_until:
            self.world.at(self._stalled_until, self._deliver, epoch, source, to, frames)
            return
        if epoch == self._epoch:
            self._arrive(to, source.encode(), frames)
        elif self.world.chance(0.5):
            late = self.world.random.random() * _UNREAD
            self.world.after(late, self._arrive, to, source.encode(), frames)

    def stall(self, seconds: float) -> None:
        """Deliver nothing for a while, and then everything."""
        self._stalled_until = max(self._stalled_until, self.world.now + seconds)

    def break_off(self, seconds: float) -> None:
        """Break the connection; there is no new one for a while."""
        self._epoch += 1
        self._down_until = max(self._down_until, self.world.now + seconds)
        dialler, listener = self.ends
        self._arrive(dialler, listener.encode(), [])
