"""The cluster's clock: a standby that takes over continues the leader's clock, not its own.

The wall clocks of nodes may differ, and jump. A standby hears the time of each record as the leader
writes it, so it knows the leader's clock without its own. Deadlines of jobs then mean the same
before and after a take-over. A node that heard no leader has only its own clock.
"""

import time
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger("dragoman.cluster")

#: Seconds by which the clocks may differ before the leader's one is continued.
TOLERANCE: Final = 5.0


def boot_time() -> float:
    """Return a time that also runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ClusterClock:
    """What a standby knows of its leader's clock."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = boot_time
    ) -> None:
        self._wall = wall
        self._steady = steady
        #: The leader's time minus the steady time; None: no leader was heard.
        self._offset: float | None = None

    def hear(self, at: float) -> None:
        """Note the time of a record that the leader has just written."""
        self._offset = at - self._steady()

    def now(self) -> float:
        """Return the time of the cluster: that of this node, unless it is off."""
        wall = self._wall()
        if self._offset is None:
            return wall
        expected = self._steady() + self._offset
        return wall if abs(wall - expected) <= TOLERANCE else expected

    def warn(self) -> None:
        """Say it in the log if the clock of this node is off."""
        wall, found = self._wall(), self.now()
        if found != wall and abs(wall - found) > TOLERANCE:
            log.warning(
                "the clock of this node differs from that of the last leader, which is continued; "
                "set the clock (NTP)",
                ahead_s=round(wall - found, 1),
            )
