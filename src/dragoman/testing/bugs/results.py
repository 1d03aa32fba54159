"""Planted bugs of results: one is given out too long, or not long enough."""

from collections.abc import Iterator
from typing import Final

from dragoman.core import recovery, state
from dragoman.core.endings import forget_finished
from dragoman.core.jobs import Job
from dragoman.core.results import result_gone
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def result_served_after_its_ttl() -> Iterator[None]:
    """Only the timer drops an expired result, and the ledger still has it."""

    def gone(job: Job, now: float) -> Fault | None:
        return result_gone(job, now) if job.forgotten_at else None

    with replaced(state, "result_gone", gone):
        yield


@BUGS.add
def ttl_counts_from_the_submission() -> Iterator[None]:
    """A job that took long has no result when it ends."""

    def gone(job: Job, now: float) -> Fault | None:
        return result_gone(job, now + (job.ended_at - job.submitted_at))

    with replaced(state, "result_gone", gone):
        yield


@BUGS.add
def forgotten_result_returns_after_a_restart() -> Iterator[None]:
    """A new process does not know which results are forgotten."""

    def forget_more(broker: BrokerState) -> None:
        for job in broker.store.jobs.values():
            job.forgotten_at = 0.0
        forget_finished(broker)

    with replaced(recovery, "forget_finished", forget_more):
        yield


@BUGS.add
def result_of_a_step_expires_while_its_parent_runs() -> Iterator[None]:
    """A parent that runs again does not get the result of a finished child."""

    def gone(self: BrokerState, job: Job) -> Fault | None:
        return result_gone(job, self.now)

    with replaced(BrokerState, "gone", gone):
        yield
