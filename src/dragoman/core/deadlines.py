"""One heap of timers: heartbeats, leases, patience, timeouts.

Cancelling a timer only marks it. The heap is rebuilt when most of its timers are marked, so that
many short jobs with long deadlines do not fill it.
"""

from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, Final

_SWEEP_ABOVE: Final = 1024


class TimerKind(Enum):
    """What a timer is for. `core.timers` has one function for each kind."""

    JOB = "the whole job has taken too long"
    START = "the delayed job may start"
    QUEUE = "the job has waited too long"
    UNBOUND = "no worker that matches the job's target has registered"
    PATIENCE = "no worker that could take the part has registered"
    RETRY = "the part may be offered again"
    TOKEN = "the limiter has a token again"
    RUN = "the attempt has run too long"
    CANCEL = "the workers should have confirmed the cancel"
    RESULT = "the time of the job's result is over"
    LEASE = "the worker may have been silent for its whole lease"
    BEAT = "the broker owes the worker a heartbeat"
    ABSENCE = "the absent worker should have come back"
    ANNOUNCE = "changed resource owners are due to be recorded"
    MOVE = "the worker should have confirmed its resources"


class Timer(list[Any]):
    """One timer, and its entry in the heap: due time, order of creation, kind, subject.

    One list instead of an object and a tuple: a million queued jobs have a million timers. Lists
    compare by their items, and no two have the same order.
    """

    __slots__ = ()

    @property
    def at(self) -> float:
        """When it is due."""
        at: float = self[0]
        return at

    @property
    def kind(self) -> TimerKind | None:
        """What it is for; None once it was cancelled or has fired."""
        kind: TimerKind | None = self[2]
        return kind


class Deadlines:
    """The heap. A timer's subject is the job, part or worker that it concerns."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._order = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def set(self, at: float, kind: TimerKind, subject: object) -> Timer:
        """Start a timer that is due at `at`."""
        self._order += 1
        timer = Timer((at, self._order, kind, subject))
        heappush(self._heap, timer)
        return timer

    def cancel(self, timer: Timer | None) -> None:
        """Cancel a timer. Does nothing if it has fired or was cancelled before."""
        if timer is None or timer[2] is None:
            return
        timer[2] = timer[3] = None
        self._cancelled += 1
        if self._cancelled > _SWEEP_ABOVE and self._cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer[2] is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_at(self) -> float | None:
        """Return when the earliest timer is due."""
        heap = self._heap
        while heap and heap[0][2] is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0].at if heap else None

    def pop_due(self, now: float) -> tuple[TimerKind, object] | None:
        """Remove the earliest timer that is due at `now`; return its kind and subject."""
        at = self.next_at()
        if at is None or at > now:
            return None
        timer = heappop(self._heap)
        kind, subject = timer[2], timer[3]
        timer[2] = timer[3] = None
        return kind, subject
