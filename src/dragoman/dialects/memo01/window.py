"""Flow control for clients with many jobs: how many requests to have open at once.

The text leaves this open ("they need to coordinate with the broker to figure out how many jobs to
submit at once"). The wire has one signal: an answered request, or a dropped one, which means that
no worker came within the broker's queue time (or that a worker was too slow). So the client probes,
as TCP does: each answer lets the window grow, a drop halves it. The README has the definition.
"""

from typing import Final

START: Final = 16
LARGEST: Final = 1024


class Window:
    """A number of requests that may be open, between 1 and `largest`."""

    def __init__(self, start: int = START, largest: int = LARGEST) -> None:
        self.largest = max(1, largest)
        self.open = 0
        self._size = float(min(max(1, start), self.largest))
        #: Below this the window grows by one with each answer, above by one per round of them.
        self._threshold = float(self.largest)
        self._sent = 0
        #: Drops of requests up to this one belong to the last shrinking and count once.
        self._shrunk_at = 0

    @property
    def size(self) -> int:
        """How many requests may be open."""
        return int(self._size)

    @property
    def has_room(self) -> bool:
        """Whether one more request may be sent."""
        return self.open < self.size

    def sent(self) -> int:
        """Count a request that was sent; return its number, to be given back when it ends."""
        self.open += 1
        self._sent += 1
        return self._sent

    def answered(self, number: int) -> None:
        """Count an answer: let the window grow."""
        self.open -= 1
        grow = 1.0 if self._size < self._threshold else 1.0 / self._size
        self._size = min(self._size + grow, float(self.largest))

    def dropped(self, number: int) -> None:
        """Count a request that nobody answered: halve the window, once for each round."""
        self.open -= 1
        if number <= self._shrunk_at:
            return
        self._shrunk_at = self._sent
        self._size = self._threshold = max(1.0, self._size / 2)

    def withdrawn(self, number: int) -> None:
        """Count a request that its own client gave up: that says nothing about the broker."""
        self.open -= 1
