"""Planted bugs of dispatch: the wrong worker, two workers, the wrong turn, or no worker.

They break credit, windows, turns and the index of workers.
"""

from collections.abc import Callable, Iterator
from typing import Final

from dragoman.core import broker, dispatch, state, workers
from dragoman.core.events import CreditGranted, DeliveryFailed
from dragoman.core.jobs import JobPart
from dragoman.core.lanes import ClientHeaps, Turns
from dragoman.core.registry import RegisteredWorker, WorkerRegistry
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def lost_wake_up() -> Iterator[None]:
    """A worker with new credit gets no work until something else happens."""

    def granted(state: state.BrokerState, event: CreditGranted) -> None:
        worker = workers.touch_worker(state, event.worker)
        if worker is not None and worker.credit is not None:
            worker.credit += max(event.credit, 0)
            state.registry.refresh(worker)

    with replaced(broker.HANDLERS, CreditGranted, granted):  # type: ignore[arg-type]
        yield


@BUGS.add
def double_lease() -> Iterator[None]:
    """A job of an absent worker goes to another at once and also stays with the first."""

    def go_absent(
        state: state.BrokerState, worker: RegisteredWorker, reason: str, grace: float
    ) -> None:
        held = dict(worker.held)
        workers._end_and_requeue(state, worker, reason)
        worker.held = held
        state.absent[worker.peer] = worker

    with replaced(workers, "_mark_absent", go_absent):
        yield


@BUGS.add
def dispatch_to_a_left_worker() -> Iterator[None]:
    """A worker that left stays in the index of workers with room."""

    def remove(self: WorkerRegistry, worker: RegisteredWorker) -> None:
        pools = {s: self.pools[s] for s in worker.services}
        old(self, worker)
        for service, pool in pools.items():
            self.pools[service] = pool
            pool.members[worker.peer] = worker
            pool.reindex(worker)

    old = WorkerRegistry.remove
    with replaced(WorkerRegistry, "remove", remove):
        yield


@BUGS.add
def attempt_not_counted() -> Iterator[None]:
    """A second dispatch has the attempt number of the first."""
    with replaced(dispatch, "_next_attempt", lambda part: max(part.attempt, 1)):
        yield


@BUGS.add
def unfair_queue() -> Iterator[None]:
    """A client that was served keeps its turn."""
    with replaced(Turns, "served", lambda self, client, weight: None):
        yield


@BUGS.add
def heavy_client_keeps_its_turn() -> Iterator[None]:
    """A client of a higher weight is served without end."""

    def served(self: Turns, client: PeerId, weight: int) -> None:
        if weight == 1:
            old(self, client)

    old = Turns.served
    with replaced(Turns, "served", served):
        yield


@BUGS.add
def stuck_behind_a_refused_job() -> Iterator[None]:
    """Only the first job of a lane is offered, even to a worker that refused it."""

    def first(self: ClientHeaps, suits: Callable[[JobPart], bool] | None = None) -> object:
        head = self.head()
        return head if head is None or suits is None or suits(head[1][4]) else None

    with replaced(ClientHeaps, "first", first):
        yield


@BUGS.add
def capacity_ignored() -> Iterator[None]:
    """A window is one wider than the worker says."""

    def has_room(self: RegisteredWorker) -> bool:
        if self.credit is not None and self.credit_returns and self.credit == len(self.held):
            return not (self.is_draining or self.is_drained or self.is_blocked)
        return bool(old(self))

    old = RegisteredWorker.__dict__["has_room"].fget
    with replaced(RegisteredWorker, "has_room", property(has_room)):
        yield


@BUGS.add
def credit_leak() -> Iterator[None]:
    """A job that never reached its worker keeps its credit."""

    def failed(state: state.BrokerState, event: DeliveryFailed) -> None:
        worker = state.registry.workers.get(event.peer)
        before = worker.credit if worker else None
        old(state, event)
        if worker is not None and before is not None and (worker.credit or 0) > before:
            worker.credit = before
            state.registry.refresh(worker)

    old = broker.HANDLERS[DeliveryFailed]
    with replaced(broker.HANDLERS, DeliveryFailed, failed):  # type: ignore[arg-type]
        yield


@BUGS.add
def unstarted_job_counted() -> Iterator[None]:
    """A job that waited in a lost worker counts as an attempt."""

    def loss(part: JobPart, is_unstarted: bool, reason: str) -> Fault:
        return Fault(FaultCode.WORKER_LOST, reason)

    with replaced(workers, "_loss", loss):
        yield


@BUGS.add
def prefetch_out_of_turn() -> Iterator[None]:
    """A worker gets the jobs of one client in advance while another client waits."""

    def next_for(state: state.BrokerState, worker: RegisteredWorker) -> JobPart | None:
        waiting = [part for lane in dispatch._lanes_for(state, worker) for part in lane.waiting()]
        last = next(reversed(worker.held.values()), None)
        same = [part for part in waiting if last is not None and part.job.client == last.job.client]
        return same[0] if same else old(state, worker)

    old = dispatch._next_for
    with replaced(dispatch, "_next_for", next_for):
        yield
