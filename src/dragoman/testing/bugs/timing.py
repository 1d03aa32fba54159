"""Planted bugs of timers: an action is early, late or missing."""

from collections.abc import Iterator
from typing import Final

from dragoman.core import state, timers, workers
from dragoman.core.deadlines import TimerKind
from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def lease_ignoring_beats() -> Iterator[None]:
    """A lease runs from the join, whatever heartbeats arrive."""

    def check(state: state.BrokerState, worker: RegisteredWorker) -> None:
        workers.dismiss_worker(state, worker, "its lease is over")

    with replaced(timers._TABLE, TimerKind.LEASE, check):  # type: ignore[arg-type]
        yield


@BUGS.add
def patience_ignored() -> Iterator[None]:
    """Patience never ends."""
    never = lambda state, part: setattr(part, "patience_timer", None)  # noqa: E731
    with replaced(timers._TABLE, TimerKind.PATIENCE, never):  # type: ignore[arg-type]
        yield


@BUGS.add
def run_timeout_not_enforced() -> Iterator[None]:
    """An attempt has no time limit."""
    never = lambda state, part: setattr(part, "run_timer", None)  # noqa: E731
    with replaced(timers._TABLE, TimerKind.RUN, never):  # type: ignore[arg-type]
        yield


@BUGS.add
def back_off_loses_the_part() -> Iterator[None]:
    """After its back-off, a part is not queued again."""

    def retry(state: state.BrokerState, part: JobPart) -> None:
        if part.queued_in is None:
            part.retry_timer = None
        else:
            old(state, part)

    old = timers._TABLE[TimerKind.RETRY]
    with replaced(timers._TABLE, TimerKind.RETRY, retry):  # type: ignore[arg-type]
        yield


@BUGS.add
def early_absence() -> Iterator[None]:
    """The timer of an earlier absence ends a later one."""

    def stop(state: state.BrokerState, worker: RegisteredWorker) -> None:
        for timer in (worker.lease_timer, worker.beat_timer):
            state.deadlines.cancel(timer)
        worker.lease_timer = worker.beat_timer = None

    def give_up_absent(state: state.BrokerState, worker: RegisteredWorker) -> None:
        if worker.peer in state.absent:
            old(state, worker)

    old = timers._TABLE[TimerKind.ABSENCE]
    with (
        replaced(workers, "_stop_timers", stop),
        replaced(timers._TABLE, TimerKind.ABSENCE, give_up_absent),  # type: ignore[arg-type]
    ):
        yield
