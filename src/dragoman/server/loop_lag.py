"""How late the event loop is: the delay of a callback beyond its due time."""

import asyncio
from typing import Final

from dragoman.server.histograms import Histogram

EVERY: Final = 0.5


class LoopLag:
    """Measures while it is started."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        #: The last measurement.
        self.last = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, on the running event loop."""
        running = asyncio.get_running_loop()
        self._due = running.time() + EVERY
        self._timer = running.call_at(self._due, self._measure)

    def _measure(self) -> None:
        self.last = max(0.0, asyncio.get_running_loop().time() - self._due)
        self.seconds.observe(self.last)
        self.start()

    def stop(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
