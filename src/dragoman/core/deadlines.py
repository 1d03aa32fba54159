"""One heap for everything that is due: beats, leases, patience, timeouts, retention.

A timer that is no longer needed is only marked; the heap is swept when the marked ones are
the majority, so that a flood of short jobs with long deadlines does not pile up.
"""

from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, Final

_SWEEP_ABOVE: Final = 1024


class TimerKind(Enum):
    """What a timer is for. `core.timers` has one function for each."""

    JOB = "the whole job has taken too long"
    QUEUE = "the job has waited too long"
    UNBOUND = "nobody came whom the job's target means"
    PATIENCE = "nobody came who could take the part"
    RETRY = "the part may be offered again"
    RUN = "the attempt has run too long"
    CANCEL = "the workers should have confirmed the cancel"
    LEASE = "the worker may have been silent for too long"
    BEAT = "the worker is to be told that the broker is alive"
    ABSENCE = "the worker that is away should have come back"
    ANNOUNCE = "who owns what is to be put on record"
    MOVE = "the worker should have confirmed what it owns"


class Timer:
    """Something that is due at `at`. `due` is None once it was cancelled or has fired."""

    __slots__ = ("about", "at", "due")

    def __init__(self, at: float, due: TimerKind | None, about: Any) -> None:
        self.at = at
        self.due = due
        self.about = about


class Deadlines:
    """The heap. `about` is whatever `due` is about: a job, a part, a worker."""

    def __init__(self) -> None:
        #: (when, in which order it was asked for, timer)
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def set(self, at: float, due: TimerKind, about: Any) -> Timer:
        """Ask for `due` with `about` at the instant `at`."""
        self._order += 1
        timer = Timer(at, due, about)
        heappush(self._heap, (at, self._order, timer))
        return timer

    def cancel(self, timer: Timer | None) -> None:
        """Let go of a timer; one that has fired or was cancelled is left as it is."""
        if timer is None or timer.due is None:
            return
        timer.due = timer.about = None
        self._cancelled += 1
        if self._cancelled > _SWEEP_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].due is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_at(self) -> float | None:
        """When the earliest timer is due."""
        heap = self._heap
        while heap and heap[0][2].due is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> tuple[TimerKind, Any] | None:
        """Take the earliest timer that is due at `now`."""
        at = self.next_at()
        if at is None or at > now:
            return None
        timer = heappop(self._heap)[2]
        due, about = timer.due, timer.about
        timer.due = timer.about = None
        assert due is not None
        return due, about
