"""Which job has which unique key. Part of the fold: it follows from the records of jobs."""

from typing import Any, Final

from dragoman.core.jobs import Job
from dragoman.model.names import JobId, Principal

#: Keys that are free again are dropped when there are twice as many as after the last time.
_SWEEP_ABOVE: Final = 1024
#: Principal and key. Principals do not share keys.
UniqueKey = tuple[Principal, str]


class UniqueJobs:
    """The last job of each unique key, and until when it has the key in any case."""

    def __init__(self) -> None:
        self._found: dict[UniqueKey, tuple[JobId, float]] = {}
        self._sweep_at = _SWEEP_ABOVE

    def submitted(self, job: Job, jobs: dict[JobId, Job]) -> None:
        """Give a new job its key."""
        unique = job.terms.unique
        if unique is None:
            return
        until = job.submitted_at + unique.period if unique.period else 0.0
        self._found[job.principal, unique.key] = (job.id, until)
        if len(self._found) > self._sweep_at:
            self._sweep(job.submitted_at, jobs)

    def _sweep(self, now: float, jobs: dict[JobId, Job]) -> None:
        for key, (job, until) in list(self._found.items()):
            if until <= now and ((found := jobs.get(job)) is None or found.is_final):
                del self._found[key]
        self._sweep_at = max(_SWEEP_ABOVE, 2 * len(self._found))

    def ended(self, job: Job) -> None:
        """Take the key of a job that ended, unless it is kept for a time."""
        unique = job.terms.unique
        if unique is not None:
            key = (job.principal, unique.key)
            if self._found.get(key) == (job.id, 0.0):
                del self._found[key]

    def holder(self, key: UniqueKey) -> tuple[JobId, float]:
        """Return the last job of a key, and until when it has the key in any case."""
        return self._found.get(key, (JobId(""), 0.0))

    def rows(self) -> list[object]:
        """Return everything as plain values, for a snapshot."""
        return [[who, key, job, until] for (who, key), (job, until) in self._found.items()]

    @classmethod
    def of_rows(cls, rows: list[Any]) -> "UniqueJobs":
        """Return the state that `rows` was made from."""
        state = cls()
        state._found = {(Principal(who), key): (JobId(job), until) for who, key, job, until in rows}
        return state
