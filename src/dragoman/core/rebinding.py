"""Waiting parts follow their resources: to the new owner, or to several when it has split.

A part that runs stays where it is. One that waits for a worker which has lost its resources, or is
gone, goes where they are now; it is given out when the move has settled (see `ownership`).
"""

from dragoman.core.dispatch import fill_worker, owner_of, start_patience
from dragoman.core.events import ReplyKind
from dragoman.core.jobs import Job, JobPart
from dragoman.core.state import BrokerState
from dragoman.model.job import JobState
from dragoman.model.names import WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import OnResource


def rebind_from(desk: BrokerState, name: WorkerName) -> None:
    """Let everything that waits for a worker go where its resources are."""
    for lane in desk.queues.bound_to(name):
        for part in lane.waiting():
            follow(desk, part)


def rebind_from_departed(desk: BrokerState) -> None:
    """Let what waits for workers that are not here go to those who own its resources now."""
    for name in desk.queues.bound_names():
        if name not in desk.registry.names:
            rebind_from(desk, name)


def follow(desk: BrokerState, part: JobPart) -> None:
    """Let a waiting part go where its resources are now."""
    if type(part.target) is not OnResource or part.job.cancel_asked_at:
        return
    shares = _shares(desk, part)
    if list(shares) == [part.bound]:
        return
    waits = part.queued_in is not None
    desk.queues.discard(part)
    parts = [part, *_split(desk, part, shares)]
    desk.deadlines.cancel(part.patience)
    part.patience = None
    names = tuple(p.bound for p in part.job.parts if p.bound)
    desk.reply(part.job, ReplyKind.DISPATCHED, workers=names)
    _let_wait(desk, parts if waits else parts[1:])


def _let_wait(desk: BrokerState, parts: list[JobPart]) -> None:
    """Put parts behind what waits for their workers already, and give out what can be."""
    for part in parts:
        desk.queues.push(part)
    for name in dict.fromkeys(part.bound for part in parts if part.bound):
        for worker in desk.registry.named(name):
            fill_worker(desk, worker)
    for part in parts:
        if part.queued_in is not None:
            start_patience(desk, part)


def _shares(desk: BrokerState, part: JobPart) -> dict[WorkerName | None, tuple[str, ...]]:
    """Return who has the part's resources; what nobody has stays with whom it waits for."""
    shares: dict[WorkerName | None, tuple[str, ...]] = {}
    for resource in part.resources:
        owners = desk.registry.owners.get(resource, {}).values()
        name = part.bound
        if not any(w.name == name for w in owners):
            owner = owner_of(desk, part.service, resource)
            name = owner.name if owner else name
        shares[name] = (*shares.get(name, ()), resource)
    return shares


def _split(
    desk: BrokerState, part: JobPart, shares: dict[WorkerName | None, tuple[str, ...]]
) -> list[JobPart]:
    """Put on record who has which share; return the parts that are new."""
    job, kept = part.job, part.bound if part.bound in shares else next(iter(shares))
    count = len(job.parts)
    _note(desk, part, kept, shares.pop(kept))
    for name, resources in shares.items():
        other = _waiting_for(job, name)
        if other is not None and not part.attempt:
            _note(desk, other, name, other.resources + resources)
            continue
        # For the record to speak of; the book makes its own from that.
        new = JobPart(job, len(job.parts), None)
        new.service, new.task = part.service, part.task
        new.attempt, new.returned = part.attempt, part.returned
        _note(desk, new, name, resources)
        job.parts[-1].request = part.request
    return job.parts[count:]


def _waiting_for(job: Job, name: WorkerName | None) -> JobPart | None:
    """Return the part of a job that waits for a worker and was never given out."""
    found = (p for p in job.parts if p.bound == name and p.state is JobState.QUEUED)
    return next((p for p in found if not p.attempt), None)


def _note(
    desk: BrokerState, part: JobPart, name: WorkerName | None, resources: tuple[str, ...]
) -> None:
    target = str(OnResource(resources))
    words, state = str(name or ""), part.job.state
    desk.note(Kind.MOVED, part, state=state, detail=words, target=target, count=part.returned)
