"""Ownership of declared resources follows the registered workers.

`resources` computes the moves; this module carries them out. A resource is *moving* until its old
and new owners have confirmed (`ResourcesSettled`) or their time is over. Jobs for it are held
meanwhile, so that none runs on a worker that does not know its resources.
"""

from dragoman.core.deadlines import TimerKind
from dragoman.core.dispatch import bind_settled_jobs, fill_bound_workers
from dragoman.core.events import ResourcesDeclared, ResourcesSettled
from dragoman.core.rebinding import rebind_from
from dragoman.core.registry import RegisteredWorker
from dragoman.core.resources import Distribution, Moves
from dragoman.core.state import BrokerState
from dragoman.model.names import PeerId, ServiceName
from dragoman.model.record import Kind


def resources_declared(state: BrokerState, event: ResourcesDeclared) -> None:
    """Replace the declared resources of a service; unchanged resources keep their owners."""
    share = state.distributions.get(event.service)
    if share is None:
        share = state.distributions[event.service] = Distribution((), event.replicas)
        for worker in state.registry.members(event.service):
            if not (worker.is_builtin or worker.is_drained):
                share.join(worker.peer, worker.name, weight_of(worker))
    _carry_out(state, event.service, share.declare(event.names, event.replicas))
    if not len(share):
        del state.distributions[event.service]


def weight_of(worker: RegisteredWorker) -> float:
    """Return a worker's weight: its cores, else its slots, else 1."""
    capacity = worker.capacity
    if capacity is None:
        return 1.0
    return float(capacity.cpu or capacity.slots or 1.0)


def join_distributions(state: BrokerState, worker: RegisteredWorker) -> None:
    """Give resources to a worker that joined or changed its services. A drained one gets none."""
    if worker.is_builtin:
        return
    for service, share in list(state.distributions.items()):
        if service in worker.services and not worker.is_drained:
            moves = share.join(worker.peer, worker.name, weight_of(worker))
        else:
            moves = _given_up(share, worker.peer)
        _carry_out(state, service, moves)


def _given_up(share: Distribution, peer: PeerId) -> Moves:
    """Remove a worker from a distribution; include its own losses in the moves."""
    own = share.owned(peer)
    moves = share.leave(peer)
    return Moves(moves.gained, {peer: own}) if own else moves


def leave_distributions(state: BrokerState, worker: RegisteredWorker) -> None:
    """Give the resources of a worker that left to other workers."""
    for service, share in list(state.distributions.items()):
        _carry_out(state, service, _given_up(share, worker.peer))
    _settle(state, worker.peer)
    rebind_from(state, worker.name)


def _carry_out(state: BrokerState, service: ServiceName, moves: Moves) -> None:
    for peer, names in moves.lost.items():
        for name in names:
            _disown(state, name, peer)
    for peer, names in moves.gained.items():
        worker = state.registry.workers[peer]
        for name in names:
            state.registry.owners.setdefault(name, {})[peer] = worker
    for peer in moves.peers():
        if peer in state.registry.workers:
            _hold(state, service, peer, moves)
    for peer in moves.lost:
        if peer in state.registry.workers:
            rebind_from(state, state.registry.workers[peer].name)


def _hold(state: BrokerState, service: ServiceName, peer: PeerId, moves: Moves) -> None:
    """Hold jobs for moving resources; announce the owners when a burst of changes is over."""
    moving = state.moving_by_worker.setdefault(peer, set())
    for name in (*moves.gained.get(peer, ()), *moves.lost.get(peer, ())):
        moving.add(name)
        state.moving.setdefault(name, set()).add(peer)
    if not state.unannounced:
        state.deadlines.set(state.now + state.limits.move_pause, TimerKind.ANNOUNCE, None)
    state.unannounced[service, peer] = None


def announce(state: BrokerState, _: None = None) -> None:
    """Record the resources of the workers whose resources changed."""
    changed, state.unannounced = state.unannounced, {}
    for service, peer in changed:
        worker, share = state.registry.workers.get(peer), state.distributions.get(service)
        if worker is not None:
            names = share.owned(peer) if share else []
            state.record(Kind.OWNS, worker, detail="\n".join(names), service=service)
            state.deadlines.set(state.now + state.limits.move_grace, TimerKind.MOVE, peer)


def _disown(state: BrokerState, name: str, peer: PeerId) -> None:
    owners = state.registry.owners.get(name)
    if owners is not None:
        owners.pop(peer, None)
        if not owners:
            del state.registry.owners[name]


def resources_settled(state: BrokerState, event: ResourcesSettled) -> None:
    """Note that a worker confirmed its resources."""
    _settle(state, event.worker)


def settle_unconfirmed(state: BrokerState, peer: PeerId) -> None:
    """Stop waiting for a worker that did not confirm in time."""
    _settle(state, peer)


def _settle(state: BrokerState, peer: PeerId) -> None:
    is_free = False
    for name in state.moving_by_worker.pop(peer, ()):
        waiting = state.moving[name]
        waiting.discard(peer)
        if not waiting:
            del state.moving[name]
            is_free = True
    if is_free:
        # Parts that are queued already go before jobs that are only bound now.
        fill_bound_workers(state)
        bind_settled_jobs(state)
