"""Planted bugs of unique keys: two jobs have one key, or a replaced job still runs."""

from collections.abc import Iterator
from typing import Any, Final

from dragoman.core import submissions
from dragoman.core.events import JobSubmitted
from dragoman.core.jobs import is_started
from dragoman.core.state import BrokerState
from dragoman.core.unique_jobs import UniqueJobs
from dragoman.model.fault import Fault
from dragoman.model.unique import Unique
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def unique_job_runs_twice() -> Iterator[None]:
    """A job that runs does not count as one that has its key."""

    def duplicate(state: BrokerState, event: JobSubmitted, unique: Unique) -> Fault | None:
        fault = old(state, event, unique)
        if fault is None:
            return None
        holder, _ = state.store.queue.uniques.holder((event.principal, unique.key))
        job = state.store.jobs.get(holder)
        return None if job is not None and is_started(job) else fault

    old = submissions._duplicate
    with replaced(submissions, "_duplicate", duplicate):
        yield


@BUGS.add
def unique_period_forgotten() -> Iterator[None]:
    """A job that ended gives its key back before its period is over."""

    def ended(self: UniqueJobs, job: Any) -> None:
        self._found.pop((job.principal, job.terms.unique.key), None)

    with replaced(UniqueJobs, "ended", ended):
        yield


@BUGS.add
def replaced_job_still_runs() -> Iterator[None]:
    """A job that a newer one replaces is not ended."""
    with replaced(submissions, "_replaced", lambda state, event, unique: None):
        yield
