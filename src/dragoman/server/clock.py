"""The broker's clock: seconds since the epoch. Unlike the wall clock, it never goes backwards.

The ledger's last record may be ahead of the wall clock, if that was wrong when it was written. The
clock then starts there and runs at half speed until the wall clock has caught up.
"""

import time
from collections.abc import Callable
from typing import Final

#: Seconds that a clock which is ahead loses in each second.
SLEW: Final = 0.5


class Clock:
    """Wall time at start, continued by the monotonic clock; not before `at_least`."""

    def __init__(
        self,
        at_least: float = 0.0,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._started = monotonic()
        self._base = max(wall(), at_least)
        #: How far it was ahead of the wall clock when it started, in seconds.
        self.ahead = self._base - wall()

    def now(self) -> float:
        """Return the time."""
        elapsed = self._monotonic() - self._started
        if not self.ahead:
            return self._base + elapsed
        return self._base + elapsed - min(self.ahead, elapsed * SLEW)
