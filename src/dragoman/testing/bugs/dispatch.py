"""Planted bugs of dispatch: work goes to the wrong worker, to two, out of turn, or to nobody.

What lives here breaks who gets a job and when: credit, windows, turns, the index of workers.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dragoman.core import broker, desk, dispatch, workers
from dragoman.core.events import CreditGranted, DeliveryFailed
from dragoman.core.jobs import Part
from dragoman.core.queues import Lane, Turns
from dragoman.core.registry import Registry, Worker
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def lost_wake_up() -> Iterator[None]:
    """A worker that asks for more is not looked at until something else happens."""

    def granted(desk: desk.Desk, event: CreditGranted) -> None:
        worker = workers.heard(desk, event.worker)
        if worker is not None and worker.credit is not None:
            worker.credit += max(event.credit, 0)
            desk.registry.refresh(worker)

    with replaced(broker.HANDLERS, CreditGranted, granted):  # type: ignore[arg-type]
        yield


@BUGS.add
def double_lease() -> Iterator[None]:
    """A job whose worker is away goes to another at once, and stays with the first as well."""

    def go_absent(desk: desk.Desk, worker: Worker, reason: str, grace: float) -> None:
        held = dict(worker.held)
        workers._let_go(desk, worker, reason)
        worker.held = held
        desk.absent[worker.peer] = worker

    with replaced(workers, "_go_absent", go_absent):
        yield


@BUGS.add
def dispatch_to_a_left_worker() -> Iterator[None]:
    """A worker that left stays in the index of those that have room."""

    def remove(self: Registry, worker: Worker) -> None:
        pools = {s: self.pools[s] for s in worker.services}
        old(self, worker)
        for service, pool in pools.items():
            self.pools[service] = pool
            pool.members[worker.peer] = worker
            pool.place(worker)

    old = Registry.remove
    with replaced(Registry, "remove", remove):
        yield


@BUGS.add
def attempt_not_counted() -> Iterator[None]:
    """A second dispatch has the number of the first."""
    with replaced(dispatch, "_next_attempt", lambda part: max(part.attempt, 1)):
        yield


@BUGS.add
def unfair_queue() -> Iterator[None]:
    """Whoever was served keeps its turn."""
    with replaced(Turns, "served", lambda self, client: None):
        yield


@BUGS.add
def stuck_behind_a_refused_job() -> Iterator[None]:
    """Only the first of a lane is offered, although a worker refused just that one."""

    def first(self: Lane, suits: Callable[[Part], bool] | None = None) -> Any:
        head = self._head()
        return head if head is None or suits is None or suits(head[1][4]) else None

    with replaced(Lane, "first", first):
        yield


@BUGS.add
def capacity_ignored() -> Iterator[None]:
    """A window is as wide as the worker says, and one wider."""

    def has_room(self: Worker) -> bool:
        if self.credit is not None and self.credit_returns and self.credit == len(self.held):
            return not (self.is_draining or self.is_blocked)
        return bool(old(self))

    old = Worker.__dict__["has_room"].fget
    with replaced(Worker, "has_room", property(has_room)):
        yield


@BUGS.add
def credit_leak() -> Iterator[None]:
    """A job that never reached its worker keeps the credit it took."""

    def failed(desk: desk.Desk, event: DeliveryFailed) -> None:
        worker = desk.registry.workers.get(event.peer)
        before = worker.credit if worker else None
        old(desk, event)
        if worker is not None and before is not None and (worker.credit or 0) > before:
            worker.credit = before
            desk.registry.refresh(worker)

    old = broker.HANDLERS[DeliveryFailed]
    with replaced(broker.HANDLERS, DeliveryFailed, failed):  # type: ignore[arg-type]
        yield
