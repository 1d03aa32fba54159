"""Statistics of jobs: a fold over durable records. Counts, times, bridges, the last hour.

It counts from the start of the process. The number of series is bounded: services beyond
`MOST_SERVICES` share the name `other`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dragoman.core.jobs import Job
from dragoman.ledger.base import Entry
from dragoman.model.job import JobState
from dragoman.model.names import PeerId, link_of
from dragoman.model.record import Kind, Record
from dragoman.server.histograms import SECONDS, Histogram

#: Services with times of their own; further ones are counted as `OTHER`.
MOST_SERVICES: Final = 200
OTHER: Final = "other"
#: Length of a window, in seconds, and the windows that are kept: one hour.
STEP: Final = 10.0
WINDOWS: Final = 360
#: Peers of the broker's own services and questions: their jobs are not the users' jobs.
_OWN_PEERS: Final = "local/"
#: How the names of the broker's own services begin: the first word, or all of the name.
_OWN_SERVICES: Final = frozenset({"mmi.", "sid.", "fss.", "mmi", "sid", "fss"})


class ServiceTimes:
    """The times of one service's jobs, by one dialect of clients."""

    __slots__ = ("attempts", "queue", "run", "total")

    def __init__(self) -> None:
        #: From submission to the first dispatch; of the last attempt; from submission to the end.
        self.queue, self.run, self.total = Histogram(), Histogram(), Histogram()
        self.attempts = 0


class StatisticsWindow:
    """What happened in a few seconds."""

    __slots__ = (
        *("counts", "failed", "refused", "running", "start", "submitted", "succeeded", "waiting"),
    )

    def __init__(self, start: float, waiting: int = 0, running: int = 0) -> None:
        self.start = start
        self.submitted = self.succeeded = self.failed = self.refused = 0
        #: Jobs that wait for their first worker, and those that were sent to one, at the end.
        self.waiting, self.running = waiting, running
        #: Jobs by the bucket of their total time.
        self.counts = [0] * (len(SECONDS) + 1)


class JobStatistics:
    """Folds every durable record. `durable` is a listener of the loop."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], ServiceTimes] = {}
        self._services: set[str] = set()
        #: Jobs that wait for their first dispatch, oldest first, by service.
        self._waiting: dict[str, dict[str, float]] = {}
        self._dispatched_at: dict[str, float] = {}
        self.windows: deque[StatisticsWindow] = deque(maxlen=WINDOWS)
        self.faults: Counter[str] = Counter()
        #: (link of the client, link of the worker, state) -> ended jobs.
        self.bridges: Counter[tuple[str, str, str]] = Counter()
        #: Denied operations, by principal-independent verb.
        self.denied = 0

    def restore(self, jobs: Iterable[Job]) -> None:
        """Take over the open jobs of a recovered broker."""
        for job in jobs:
            if job.is_final:
                continue
            started = max((part.dispatched_at for part in job.parts), default=0.0)
            if started:
                self._dispatched_at[job.id] = started
            else:
                self._waiting.setdefault(job.service, {})[job.id] = job.submitted_at

    def durable(self, entries: Sequence[Entry]) -> None:
        """Count a durable batch."""
        for entry in entries:
            record = entry.record
            count = _COUNTS.get(record.kind)
            if count is not None:
                count(self, record)
        levels = sum(map(len, self._waiting.values())), len(self._dispatched_at)
        if levels != ((last.waiting, last.running) if (last := self.newest) else (0, 0)):
            window = self._window(entries[-1].record.at)
            window.waiting, window.running = levels

    @property
    def newest(self) -> StatisticsWindow | None:
        """The newest window; None: nothing was counted yet."""
        return self.windows[-1] if self.windows else None

    # --- questions ------------------------------------------------------------------------------

    def oldest_waiting(self, service: str) -> float:
        """Return when the oldest job that waits for its first worker came; 0: none waits."""
        return next(iter(self._waiting.get(service, {}).values()), 0.0)

    def latency(self, now: float, seconds: float) -> list[int]:
        """Return the jobs that ended in the last seconds, by bucket of their total time."""
        found = [0] * (len(SECONDS) + 1)
        for window in self.since(now - seconds):
            found = [a + b for a, b in zip(found, window.counts, strict=True)]
        return found

    def since(self, start: float) -> list[StatisticsWindow]:
        """Return the windows that end after an instant."""
        return [window for window in self.windows if window.start + STEP > start]

    # --- counting -------------------------------------------------------------------------------

    def _window(self, at: float) -> StatisticsWindow:
        start = at - at % STEP
        last = self.windows[-1] if self.windows else None
        if last is not None and last.start >= start:
            return last
        waiting, running = (last.waiting, last.running) if last else (0, 0)
        self.windows.append(StatisticsWindow(start, waiting, running))
        return self.windows[-1]

    def _times(self, service: str, link: str) -> ServiceTimes:
        if service not in self._services:
            if len(self._services) >= MOST_SERVICES:
                service = OTHER
            else:
                self._services.add(service)
        key = (service, link)
        found = self.times.get(key)
        if found is None:
            found = self.times[key] = ServiceTimes()
        return found

    def _submitted(self, record: Record) -> None:
        if not _is_own(record):
            self._waiting.setdefault(record.service, {})[record.job] = record.at
            self._window(record.at).submitted += 1

    def _dispatched(self, record: Record) -> None:
        if _is_own(record):
            return
        self._dispatched_at[record.job] = record.at
        came = self._stop_waiting(record)
        times = self._times(record.service, link_of(PeerId(record.client)))
        times.attempts += 1
        if came:
            times.queue.observe(record.at - came)

    def _stop_waiting(self, record: Record) -> float:
        waiting = self._waiting.get(record.service)
        came = waiting.pop(record.job, 0.0) if waiting else 0.0
        if waiting is not None and not waiting:
            del self._waiting[record.service]
        return came

    def _ended(self, record: Record) -> None:
        started, at = self._dispatched_at.pop(record.job, 0.0), record.at
        if not started:
            self._stop_waiting(record)
        if _is_own(record):
            return
        link, window = link_of(PeerId(record.client)), self._window(at)
        times = self._times(record.service, link)
        if started:
            times.run.observe(at - started, record.job, at)
            self.bridges[link, link_of(PeerId(record.peer)), record.state] += 1
        bucket = times.total.observe(at - record.submitted_at, record.job, at)
        window.counts[bucket] += 1
        if record.state == JobState.SUCCEEDED:
            window.succeeded += 1
        else:
            window.failed += 1
            self.faults[record.fault or record.state] += 1

    def _refused(self, record: Record) -> None:
        self._window(record.at).refused += 1
        self.faults[record.fault] += 1

    def _denied(self, record: Record) -> None:
        self.denied += 1


def _is_own(record: Record) -> bool:
    """Tell whether a job is of the broker itself, or for one of its own services."""
    is_own = record.service[:4].lower() in _OWN_SERVICES
    return is_own or record.client.startswith(_OWN_PEERS)


_COUNTS: Final[dict[str, Callable[[JobStatistics, Record], None]]] = {
    Kind.SUBMITTED: JobStatistics._submitted,
    Kind.DISPATCHED: JobStatistics._dispatched,
    Kind.ENDED: JobStatistics._ended,
    Kind.REFUSED: JobStatistics._refused,
    Kind.DENIED: JobStatistics._denied,
}
