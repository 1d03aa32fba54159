"""The broker's clock: seconds since the epoch. Unlike the wall clock, it never goes backwards."""

import time


class Clock:
    """Wall time at start, continued by the monotonic clock; not before `at_least`."""

    def __init__(self, at_least: float = 0.0) -> None:
        self._offset = max(time.time(), at_least) - time.monotonic()

    def now(self) -> float:
        """Return the time."""
        return time.monotonic() + self._offset
