"""Who gets what: binding targets to workers, letting parts wait, giving them out.

Every function here may be called at any time; it does what can be done now and leaves the rest
waiting. Nothing here ends a job.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from dragoman.core.deadlines import TimerKind
from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind
from dragoman.core.jobs import Job, JobPart, is_single
from dragoman.core.queues import QueueLane, Ranked
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.capacity import Capacity
from dragoman.model.labels import Requirement
from dragoman.model.names import EVERY_SERVICE, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import AllWorkers, AnyWorker, Labelled, Named, OnResource, Target


def place(desk: BrokerState, job: Job) -> None:
    """Let a new job, or one whose workers were not there yet, go as far as it can now."""
    if is_single(job):
        enqueue(desk, job.parts[0])
        return
    shares = {} if is_held(desk, job) else resources_by_worker(desk, job.service, job.target)
    if not shares:
        _wait_unbound(desk, job)
        return
    desk.deadlines.cancel(job.unbound_due)
    job.unbound_due = None
    targets = [str(OnResource(resources)) for resources in shares.values() if resources]
    desk.note_job(Kind.BOUND, job, detail="\n".join(shares), target="\n".join(targets))
    desk.reply(job, ReplyKind.DISPATCHED, workers=tuple(shares))
    for part in job.parts:
        enqueue(desk, part)


def _wait_unbound(desk: BrokerState, job: Job) -> None:
    """Let a job wait for workers that its target means."""
    desk.queues.of(job.service).unbound[job.id] = job
    patience = job.terms.patience
    if patience is not None:
        # What is held for a move is not waiting for somebody to come.
        limits = desk.limits
        held = 2 * (limits.move_pause + limits.move_grace) if is_held(desk, job) else 0.0
        at = max(desk.now + max(patience, held), desk.recovery_ends_at)
        job.unbound_due = desk.deadlines.set(at, TimerKind.UNBOUND, job)


def is_held(desk: BrokerState, job: Job) -> bool:
    """Whether a job is for a resource that is changing hands."""
    if not desk.moving or not isinstance(job.target, OnResource):
        return False
    names = job.target.resources
    return any(name in desk.moving for name in names) or any(
        fnmatchcase(moving, name) for moving in desk.moving for name in names
    )


def bind_settled_jobs(desk: BrokerState) -> None:
    """Bind the jobs that were held for resources which have settled."""
    for job in desk.queues.unbound():
        is_free = isinstance(job.target, OnResource) and not is_held(desk, job)
        if is_free and target_workers(desk, job.service, job.target):
            _bind(desk, job)


def _bind(desk: BrokerState, job: Job) -> None:
    del desk.queues.of(job.service).unbound[job.id]
    place(desk, job)
    desk.queues.tidy(job.service)


def enqueue(desk: BrokerState, part: JobPart) -> None:
    """Give a part to a worker that has room; if there is none, let it wait.

    Nobody who waits is passed over: a worker with room is one for whom nothing suitable waits.
    """
    worker = _candidate(desk, part)
    if worker is not None:
        give(desk, worker, part)
        return
    desk.queues.push(part)
    start_patience(desk, part)


def enqueue_after(desk: BrokerState, part: JobPart, worker: RegisteredWorker | None) -> None:
    """Let a part wait that a worker has just given up; others may have waited for that worker."""
    desk.queues.push(part)
    if worker is not None:
        fill_worker(desk, worker)
    if part.queued_in is not None:
        desk.queues.discard(part)
        enqueue(desk, part)


def start_patience(desk: BrokerState, part: JobPart) -> None:
    """Start a waiting part's patience if nobody is there who could ever take it."""
    patience = part.job.terms.patience
    if patience is None or can_serve(desk, part.service, part.target, part.bound):
        return
    desk.deadlines.cancel(part.patience)
    if part.attempt:
        # Impatience is for refusing at the door. A job that lost its worker is ours: whoever
        # replaces the worker gets as long to come as a worker that comes back.
        patience = max(patience, desk.limits.recovery_grace)
    at = max(desk.now + patience, desk.recovery_ends_at)
    part.patience = desk.deadlines.set(at, TimerKind.PATIENCE, part)


def serve_part(desk: BrokerState, part: JobPart) -> None:
    """Give a waiting part out if a worker would take it now."""
    worker = _candidate(desk, part)
    if worker is not None:
        _take_out(desk, part)
        give(desk, worker, part)


def fill_worker(desk: BrokerState, worker: RegisteredWorker) -> None:
    """Give a worker with room whatever waits for one like it, each client in its turn."""
    if desk.queues.is_empty or desk.registry.workers.get(worker.peer) is not worker:
        return
    while worker.has_room and (part := _next_for(desk, worker)) is not None:
        _take_out(desk, part)
        give(desk, worker, part)


def fill_bound_workers(desk: BrokerState) -> None:
    """Give out what waited for a worker by name until its resources had settled."""
    for name in desk.queues.bound_names():
        for worker in desk.registry.named(name):
            fill_worker(desk, worker)


def _take_out(desk: BrokerState, part: JobPart) -> None:
    desk.queues.discard(part)
    desk.queues.turns.served(part.queued_client)


def _next_for(desk: BrokerState, worker: RegisteredWorker) -> JobPart | None:
    """Choose what a worker gets next, over all lanes that it may serve."""
    found: Ranked | None = None
    for lane in _lanes_for(desk, worker):
        head = lane.first(lambda part: _accepts(desk, worker, part))
        if head is not None and (found is None or head < found):
            found = head
    return found[1][4] if found else None


def _accepts(desk: BrokerState, worker: RegisteredWorker, part: JobPart) -> bool:
    """Whether a worker may be offered this very part."""
    if part.refused_by is not None and worker.name in part.refused_by:
        return False
    if desk.moving and is_moving(desk, part):
        return False
    # Replies name the job, not the part: nobody holds two parts of one job.
    parts = part.job.parts
    return len(parts) == 1 or not any(p.key in worker.held for p in parts)


def give(desk: BrokerState, worker: RegisteredWorker, part: JobPart) -> None:
    """Dispatch a part to a worker."""
    job = part.job
    if part.patience or part.retry:
        desk.deadlines.cancel(part.patience)
        desk.deadlines.cancel(part.retry)
        part.patience = part.retry = None
    attempt = _next_attempt(part)
    seq = desk.note(Kind.DISPATCHED, part, state="running", worker=worker, attempt=attempt)
    desk.registry.hold(worker, part)
    run_until = _run_until(desk, part)
    if part.bound is None and part.attempt == 1:
        desk.reply(job, ReplyKind.DISPATCHED, part=part, workers=(worker.name,))
    request = part.request
    assert request is not None, f"{part.key} is dispatched without its request"
    desk.out.append(
        SendWork(
            worker.peer,
            job.id,
            part.attempt,
            part.service,
            job.client,
            request,
            part.task,
            run_until,
            seq,
            job.terms.needs,
            str(part.target),
            job.terms.strict,
        )
    )


def _next_attempt(part: JobPart) -> int:
    """Number an attempt so that (job, attempt) never means two things to one worker.

    Parts are with different workers, until one of several moves; then they count together.
    """
    job = part.job
    if len(job.parts) > 1 and job.has_moved:
        return max(p.attempt for p in job.parts) + 1
    return part.attempt + 1


def _run_until(desk: BrokerState, part: JobPart) -> float | None:
    """Set the attempt's own deadline; return when the worker's time is over."""
    job = part.job
    run_timeout = job.terms.run_timeout
    if run_timeout is None:
        return job.deadline_at or None
    until = desk.now + run_timeout
    part.runs_out = desk.deadlines.set(until, TimerKind.RUN, part)
    return min(until, job.deadline_at) if job.deadline_at else until


def _candidate(desk: BrokerState, part: JobPart) -> RegisteredWorker | None:
    """Return the worker with room that is the best choice for a part."""
    found: Iterable[RegisteredWorker]
    if part.bound:
        found = [w for w in desk.registry.named(part.bound) if w.has_room]
    else:
        pool = desk.registry.pools.get(part.service)
        found = pool.in_order(part.job.terms.balance) if pool else ()
    wanted = part.target.requirements if type(part.target) is Labelled and not part.bound else ()
    needs = part.job.terms.needs
    for worker in found:
        if _suits(worker, wanted, needs) and _accepts(desk, worker, part):
            return worker
    return None


def _suits(worker: RegisteredWorker, wanted: tuple[Requirement, ...], needs: Capacity) -> bool:
    if wanted and not all(r.holds(worker.labels) for r in wanted):
        return False
    return worker.fits(needs)


def _lanes_for(desk: BrokerState, worker: RegisteredWorker) -> Iterator[QueueLane]:
    """Yield the lanes a worker may take from."""
    lanes = desk.queues.bound_to(worker.name)
    for service in worker.services:
        queue = desk.queues.find(service)
        if queue is not None:
            lanes += queue.lanes.values()
    return (lane for lane in lanes if _suits(worker, lane.wanted, lane.needs))


def bind_waiting_jobs(desk: BrokerState, worker: RegisteredWorker) -> None:
    """Bind the jobs that waited for somebody like this worker to come."""
    for job in desk.queues.unbound():
        is_free = _may_mean(job, worker) and not is_held(desk, job)
        if is_free and target_workers(desk, job.service, job.target):
            _bind(desk, job)


def _may_mean(job: Job, worker: RegisteredWorker) -> bool:
    """Whether a worker's coming can change whom a job is for; a name means it in any service."""
    return job.service in (*worker.services, EVERY_SERVICE) or isinstance(job.target, Named)


def is_moving(desk: BrokerState, part: JobPart) -> bool:
    """Whether a part is for a resource that is changing hands."""
    return any(name in desk.moving for name in part.resources)


def target_workers(
    desk: BrokerState, service: ServiceName, target: Target
) -> tuple[WorkerName, ...]:
    """Return the workers a target with several parts is for, as they are registered now."""
    return tuple(resources_by_worker(desk, service, target))


def resources_by_worker(
    desk: BrokerState, service: ServiceName, target: Target
) -> dict[WorkerName, tuple[str, ...]]:
    """Return the same, each with the resources that it is meant for, if it is for any."""
    if not isinstance(target, OnResource):
        return {w.name: () for w in _targeted(desk, service, target)}
    shares: dict[WorkerName, tuple[str, ...]] = {}
    for resource in _matched(desk, target):
        owner = owner_of(desk, service, resource)
        if owner is not None:
            shares[owner.name] = (*shares.get(owner.name, ()), resource)
    return shares


def _targeted(
    desk: BrokerState, service: ServiceName, target: Target
) -> Iterable[RegisteredWorker]:
    registry = desk.registry
    if isinstance(target, AllWorkers):
        return registry.members(service)
    if isinstance(target, Named):
        # A name reaches its worker whatever its service, as long as somebody serves this one.
        anybody = any(True for _ in registry.members(service))
        return [w for n in target.names for w in registry.named(n)] if anybody else ()
    if isinstance(target, Labelled):
        return registry.matching(service, target.requirements)[:1]
    pools = list(registry.pools.values()) if service == EVERY_SERVICE else []
    ones = [next(p.in_order("least_loaded"), None) or next(iter(p.members.values())) for p in pools]
    return [worker for worker in ones if not worker.is_builtin]


def _matched(desk: BrokerState, target: OnResource) -> Iterable[str]:
    """Return the owned resources that are named or matched, each once."""
    owners = desk.registry.owners
    found: dict[str, None] = {}
    for name in target.resources:
        matched = [name] if name in owners else [o for o in owners if fnmatchcase(o, name)]
        found.update(dict.fromkeys(matched))
    return found


def owner_of(desk: BrokerState, service: ServiceName, resource: str) -> RegisteredWorker | None:
    """Return the least loaded owner of a resource that serves this service."""
    found = desk.registry.owners.get(resource, {}).values()
    able = [w for w in found if service in (*w.services, EVERY_SERVICE)]
    return min(able, key=lambda w: (len(w.held), w.used_at)) if able else None


def can_serve(
    desk: BrokerState, service: ServiceName, target: Target, bound: WorkerName | None
) -> bool:
    """Whether anybody is registered who could ever take this, busy or not."""
    registry = desk.registry
    if bound:
        return bound in registry.names
    if type(target) is AnyWorker and service != EVERY_SERVICE:
        return service in registry.pools
    if service != EVERY_SERVICE and isinstance(target, Labelled):
        return bool(registry.matching(service, target.requirements))
    return bool(target_workers(desk, service, target))
