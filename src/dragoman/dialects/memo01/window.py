"""Flow control for clients with many jobs: how many requests to have open at once.

The specification leaves this open ("they need to coordinate with the broker to figure out how many
jobs to submit at once"). The only signal is whether a request is answered or dropped. A drop means
that no worker was free within the broker's queue time, or that a worker was too slow. So the client
probes as TCP does: each answer grows the window, a drop halves it. The README has the definition.
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
        #: Below this size the window grows by one per answer, above it by one per window of
        #: answers.
        self._threshold = float(self.largest)
        self._sent = 0
        #: Number of the last request sent before the window shrank; drops up to it count once.
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
        """Count a sent request; return its number, for `answered`, `dropped` or `withdrawn`."""
        self.open += 1
        self._sent += 1
        return self._sent

    def answered(self, number: int) -> None:
        """Count an answer: the window grows."""
        self.open -= 1
        grow = 1.0 if self._size < self._threshold else 1.0 / self._size
        self._size = min(self._size + grow, float(self.largest))

    def dropped(self, number: int) -> None:
        """Count a request without an answer: halve the window, once per window of requests."""
        self.open -= 1
        if number <= self._shrunk_at:
            return
        self._shrunk_at = self._sent
        self._size = self._threshold = max(1.0, self._size / 2)

    def withdrawn(self, number: int) -> None:
        """Count a request that the caller gave up; the window stays as it is."""
        self.open -= 1
