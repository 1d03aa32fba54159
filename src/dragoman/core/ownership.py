"""Declared resources and the broker: who owns what follows who is here.

`resources` has the arithmetic; here its moves are carried out. A resource that changes hands is
*moving* until everybody concerned has confirmed it (`ResourcesSettled`) or had the time to; jobs
for it are held meanwhile, so none runs with an owner that does not know yet, nor with one that has
not let go.
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


def resources_declared(desk: BrokerState, event: ResourcesDeclared) -> None:
    """Take over which resources a service has; what stays declared stays where it is."""
    share = desk.shares.get(event.service)
    if share is None:
        share = desk.shares[event.service] = Distribution((), event.replicas)
        for worker in desk.registry.members(event.service):
            if not worker.is_builtin:
                share.join(worker.peer, worker.name, weight_of(worker))
    _carry_out(desk, event.service, share.declare(event.names, event.replicas))
    if not len(share):
        del desk.shares[event.service]


def weight_of(worker: RegisteredWorker) -> float:
    """Say how large a worker's share is: by its cores, else its slots; others count as one."""
    capacity = worker.capacity
    if capacity is None:
        return 1.0
    return float(capacity.cpu or capacity.slots or 1.0)


def join_distributions(desk: BrokerState, worker: RegisteredWorker) -> None:
    """Give a worker that came, or changed what it offers, its share."""
    if worker.is_builtin:
        return
    for service, share in list(desk.shares.items()):
        if service in worker.services:
            moves = share.join(worker.peer, worker.name, weight_of(worker))
        else:
            moves = _given_up(share, worker.peer)
        _carry_out(desk, service, moves)


def _given_up(share: Distribution, peer: PeerId) -> Moves:
    """Let a worker leave a service, and say what it lost by that."""
    own = share.owned(peer)
    moves = share.leave(peer)
    return Moves(moves.gained, {peer: own}) if own else moves


def leave_distributions(desk: BrokerState, worker: RegisteredWorker) -> None:
    """Give what a worker that went had owned to others."""
    for service, share in list(desk.shares.items()):
        _carry_out(desk, service, _given_up(share, worker.peer))
    _settle(desk, worker.peer)
    rebind_from(desk, worker.name)


def _carry_out(desk: BrokerState, service: ServiceName, moves: Moves) -> None:
    for peer, names in moves.lost.items():
        for name in names:
            _disown(desk, name, peer)
    for peer, names in moves.gained.items():
        worker = desk.registry.workers[peer]
        for name in names:
            desk.registry.owners.setdefault(name, {})[peer] = worker
    for peer in moves.peers():
        if peer in desk.registry.workers:
            _hold(desk, service, peer, moves)
    for peer in moves.lost:
        if peer in desk.registry.workers:
            rebind_from(desk, desk.registry.workers[peer].name)


def _hold(desk: BrokerState, service: ServiceName, peer: PeerId, moves: Moves) -> None:
    """Hold jobs for what moves; say so when a burst of comings and goings is over."""
    moving = desk.moving_of.setdefault(peer, set())
    for name in (*moves.gained.get(peer, ()), *moves.lost.get(peer, ())):
        moving.add(name)
        desk.moving.setdefault(name, set()).add(peer)
    if not desk.unannounced:
        desk.deadlines.set(desk.now + desk.limits.move_pause, TimerKind.ANNOUNCE, None)
    desk.unannounced[service, peer] = None


def announce(desk: BrokerState, _: None = None) -> None:
    """Put on record what the workers own whose share has changed."""
    changed, desk.unannounced = desk.unannounced, {}
    for service, peer in changed:
        worker, share = desk.registry.workers.get(peer), desk.shares.get(service)
        if worker is not None:
            names = share.owned(peer) if share else []
            desk.note_worker(Kind.OWNS, worker, detail="\n".join(names), service=service)
            desk.deadlines.set(desk.now + desk.limits.move_grace, TimerKind.MOVE, peer)


def _disown(desk: BrokerState, name: str, peer: PeerId) -> None:
    owners = desk.registry.owners.get(name)
    if owners is not None:
        owners.pop(peer, None)
        if not owners:
            del desk.registry.owners[name]


def resources_settled(desk: BrokerState, event: ResourcesSettled) -> None:
    """Hear that a worker knows what it owns now."""
    _settle(desk, event.worker)


def settle_unconfirmed(desk: BrokerState, peer: PeerId) -> None:
    """Hold nothing for a worker that did not confirm in time."""
    _settle(desk, peer)


def _settle(desk: BrokerState, peer: PeerId) -> None:
    is_free = False
    for name in desk.moving_of.pop(peer, ()):
        waiting = desk.moving[name]
        waiting.discard(peer)
        if not waiting:
            del desk.moving[name]
            is_free = True
    if is_free:
        # What has a place in a queue goes before what only gets one now.
        fill_bound_workers(desk)
        bind_settled_jobs(desk)
