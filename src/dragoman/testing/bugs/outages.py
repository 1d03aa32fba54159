"""Planted bugs of outages: the broker blames its peers for its own restart, pause or clock."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO, Final

from dragoman.core import recovery
from dragoman.core.broker import Broker
from dragoman.core.deadlines import TimerKind
from dragoman.core.effects import RecoveredWork
from dragoman.core.jobs import JobPart
from dragoman.core.state import BrokerState
from dragoman.dialects.memo01.late_results import LateResults
from dragoman.dialects.unconfirmed import UnconfirmedResults
from dragoman.ledger import snapshots
from dragoman.server import side_recovery
from dragoman.server.clock import Clock
from dragoman.server.engine import BrokerEngine
from dragoman.server.side_recovery import SideRecovery
from dragoman.testing import server
from dragoman.testing.bugs.planting import Bugs, replaced
from dragoman.testing.sim_connections import RouterAddresses

BUGS: Final = Bugs()
#: Found in the worlds of peers without an identity.
UNNAMED_BUGS: Final = Bugs()
#: Found in the worlds whose disk stalls.
DISK_BUGS: Final = Bugs()


def _nothing(*_: object) -> None:
    """Do nothing."""


@BUGS.add
def leases_judged_right_after_a_pause() -> Iterator[None]:
    """After a pause, leases end before the messages of that time are read."""
    with replaced(BrokerEngine, "_hold_if_late", _nothing):
        yield


@BUGS.add
def old_joins_believed() -> Iterator[None]:
    """A join that waited unread decides about work that was dispatched after it was sent."""
    with replaced(BrokerEngine, "_as_known", lambda engine, joined, effects, now: joined):
        yield


@DISK_BUGS.add
def unsent_work_called_lost() -> Iterator[None]:
    """A worker that registers again loses the work that waits for the ledger."""
    with replaced(BrokerEngine, "_unsent_to", lambda engine, worker, effects: frozenset()):
        yield


@BUGS.add
def past_of_sides_forgotten() -> Iterator[None]:
    """After a restart, sides do not learn which requests an earlier process gave out."""
    with replaced(SideRecovery, "restore", _nothing):
        yield


@BUGS.add
def results_not_kept() -> Iterator[None]:
    """A worker forgets its results before the broker has recorded them."""
    with replaced(UnconfirmedResults, "keep", _nothing):
        yield


@BUGS.add
def requests_told_apart_by_their_content() -> Iterator[None]:
    """After a restart, a result that equals the worker's last one counts as sent again."""

    def without_numbers(broker: Broker) -> Iterator[RecoveredWork]:
        return (replace(found, answers=0) for found in old(broker))

    old = recovery.work_in_flight
    with replaced(side_recovery, "work_in_flight", without_numbers):
        yield


@BUGS.add
def lost_jobs_awaited_for_ever() -> Iterator[None]:
    """After a restart, a job whose message was lost waits for a worker that never got it."""

    def forget(late: LateResults, id_: bytes) -> None:
        return None

    def await_worker(state: BrokerState, part: JobPart) -> None:
        old(state, part)
        worker = state.absent[part.peer]
        state.deadlines.cancel(worker.absence_timer)
        worker.absence_timer = state.deadlines.set(math.inf, TimerKind.ABSENCE, worker)

    old = recovery._await_worker
    with (
        replaced(LateResults, "take_undelivered", forget),
        replaced(recovery, "_await_worker", await_worker),
    ):
        yield


@UNNAMED_BUGS.add
def addresses_recur() -> Iterator[None]:
    """After a restart, peers without an identity get addresses that others had before."""
    with replaced(RouterAddresses, "first", lambda addresses: 0):
        yield


@BUGS.add
def wall_clock_followed() -> Iterator[None]:
    """The broker's clock jumps with the wall clock while it runs."""
    walls: dict[int, Callable[[], float]] = {}

    def begin(clock: Clock, at_least: float, wall: Callable[[], float], *rest: Any) -> None:
        old(clock, at_least, wall, *rest)
        walls[id(clock)] = wall

    def now(clock: Clock) -> float:
        return walls[id(clock)]()

    old = Clock.__init__
    with replaced(Clock, "__init__", begin), replaced(Clock, "now", now):
        yield


@BUGS.add
def any_clock_accepted_at_start() -> Iterator[None]:
    """A start with a clock that is days ahead expires the queue."""
    with replaced(server, "require_plausible", _nothing):
        yield


@BUGS.add
def damaged_snapshots_believed() -> Iterator[None]:
    """The checksums of a snapshot are not compared."""

    def read(file: BinaryIO) -> Any:
        length, _ = snapshots._FRAME.unpack(file.read(snapshots._FRAME.size))
        return snapshots._decode(file.read(length))

    with replaced(snapshots, "_read", read):
        yield
