"""Rebinding: queued parts follow their resources to the new owner, or to several owners.

A running part stays with its worker. A part queued for a worker that lost the resources, or left,
is bound to their present owner; it is dispatched when the move has settled (see `ownership`).
"""

from dragoman.core.dispatch import fill_worker, owner_of, start_patience
from dragoman.core.events import ReplyKind
from dragoman.core.jobs import Job, JobPart
from dragoman.core.state import BrokerState
from dragoman.model.job import JobState
from dragoman.model.names import WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import OnResource


def rebind_from(state: BrokerState, name: WorkerName) -> None:
    """Rebind everything that is queued for a worker."""
    for lane in state.queues.bound_to(name):
        for part in lane.waiting():
            rebind(state, part)


def rebind_from_departed(state: BrokerState) -> None:
    """Rebind what is queued for workers that are not registered."""
    for name in state.queues.bound_names():
        if name not in state.registry.names:
            rebind_from(state, name)


def rebind(state: BrokerState, part: JobPart) -> None:
    """Bind a queued part to the present owners of its resources."""
    if type(part.target) is not OnResource or part.job.cancel_asked_at:
        return
    shares = _shares(state, part)
    if list(shares) == [part.bound]:
        return
    waits = part.queued_in is not None
    state.queues.discard(part)
    parts = [part, *_split(state, part, shares)]
    state.deadlines.cancel(part.patience_timer)
    part.patience_timer = None
    names = tuple(p.bound for p in part.job.parts if p.bound)
    state.reply(part.job, ReplyKind.DISPATCHED, workers=names)
    _queue_and_fill(state, parts if waits else parts[1:])


def _queue_and_fill(state: BrokerState, parts: list[JobPart]) -> None:
    """Queue parts behind what waits for their workers; dispatch what is possible."""
    for part in parts:
        state.queues.push(part)
    for name in dict.fromkeys(part.bound for part in parts if part.bound):
        for worker in state.registry.named(name):
            fill_worker(state, worker)
    for part in parts:
        if part.queued_in is not None:
            start_patience(state, part)


def _shares(state: BrokerState, part: JobPart) -> dict[WorkerName | None, tuple[str, ...]]:
    """Return the owners of a part's resources. Without an owner a resource keeps its worker."""
    shares: dict[WorkerName | None, tuple[str, ...]] = {}
    for resource in part.resources:
        owners = state.registry.owners.get(resource, {}).values()
        name = part.bound
        if not any(w.name == name for w in owners):
            owner = owner_of(state, part.service, resource)
            name = owner.name if owner else name
        shares[name] = (*shares.get(name, ()), resource)
    return shares


def _split(
    state: BrokerState, part: JobPart, shares: dict[WorkerName | None, tuple[str, ...]]
) -> list[JobPart]:
    """Record which worker gets which resources; return the new parts."""
    job, kept = part.job, part.bound if part.bound in shares else next(iter(shares))
    count = len(job.parts)
    _record_move(state, part, kept, shares.pop(kept))
    for name, resources in shares.items():
        other = _waiting_for(job, name)
        if other is not None and not part.attempt:
            _record_move(state, other, name, other.resources + resources)
            continue
        # Only describes the record; the store makes its own part from that.
        new = JobPart(job, len(job.parts), None)
        new.service, new.task = part.service, part.task
        # The retries of a part that splits off start again.
        new.attempt, new.returned = part.attempt, part.returned + part.failures
        _record_move(state, new, name, resources)
        job.parts[-1].request = part.request
    return job.parts[count:]


def _waiting_for(job: Job, name: WorkerName | None) -> JobPart | None:
    """Return the part of a job that is queued for a worker and was never dispatched."""
    found = (p for p in job.parts if p.bound == name and p.state is JobState.QUEUED)
    return next((p for p in found if not p.attempt), None)


def _record_move(
    state: BrokerState, part: JobPart, name: WorkerName | None, resources: tuple[str, ...]
) -> None:
    target = str(OnResource(resources))
    state.record(
        Kind.MOVED,
        part,
        state=part.job.state,
        detail=str(name or ""),
        target=target,
        count=part.returned,
    )
