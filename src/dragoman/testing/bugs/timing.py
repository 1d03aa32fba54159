"""Planted bugs of time: what is due comes too soon, too late or never.

What lives here breaks one of the core's timers; all but one replace a line of its table.
"""

from collections.abc import Iterator
from typing import Final

from dragoman.core import desk, timers, workers
from dragoman.core.deadlines import Due
from dragoman.core.jobs import Part
from dragoman.core.registry import Worker
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def lease_ignoring_beats() -> Iterator[None]:
    """A lease runs from the moment a worker joined, however often it beats."""

    def check(desk: desk.Desk, worker: Worker) -> None:
        workers.lose(desk, worker, "its lease is over")

    with replaced(timers._TABLE, Due.LEASE, check):  # type: ignore[arg-type]
        yield


@BUGS.add
def patience_ignored() -> Iterator[None]:
    """Nobody's patience ever ends."""
    with replaced(timers._TABLE, Due.PATIENCE, lambda desk, part: setattr(part, "patience", None)):  # type: ignore[arg-type]
        yield


@BUGS.add
def run_timeout_not_enforced() -> Iterator[None]:
    """An attempt may run for as long as it likes."""
    with replaced(timers._TABLE, Due.RUN, lambda desk, part: setattr(part, "runs_out", None)):  # type: ignore[arg-type]
        yield


@BUGS.add
def back_off_loses_the_part() -> Iterator[None]:
    """After its back-off a part is not put back in the queue."""

    def retry(desk: desk.Desk, part: Part) -> None:
        if part.queued_in is None:
            part.retry = None
        else:
            old(desk, part)

    old = timers._TABLE[Due.RETRY]
    with replaced(timers._TABLE, Due.RETRY, retry):  # type: ignore[arg-type]
        yield


@BUGS.add
def early_absence() -> Iterator[None]:
    """The timer of an earlier absence ends a later one."""

    def stop(desk: desk.Desk, worker: Worker) -> None:
        for timer in (worker.lease_due, worker.beat_due):
            desk.deadlines.cancel(timer)
        worker.lease_due = worker.beat_due = None

    def lose_absent(desk: desk.Desk, worker: Worker) -> None:
        if worker.peer in desk.absent:
            old(desk, worker)

    old = timers._TABLE[Due.ABSENCE]
    with (
        replaced(workers, "_stop_timers", stop),
        replaced(timers._TABLE, Due.ABSENCE, lose_absent),  # type: ignore[arg-type]
    ):
        yield
