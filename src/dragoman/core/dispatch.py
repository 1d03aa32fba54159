"""Dispatch: bind targets to workers, queue parts, send parts to workers with room.

Every function here may be called at any time: it dispatches what it can and queues the rest.
Nothing here ends a job.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from dragoman.core.deadlines import TimerKind
from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind
from dragoman.core.jobs import Job, JobPart, is_single
from dragoman.core.lanes import QueueLane, Ranked
from dragoman.core.limiters import Limiter
from dragoman.core.records import part_record
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.body import EMPTY
from dragoman.model.capacity import Capacity
from dragoman.model.labels import Requirement
from dragoman.model.names import EVERY_SERVICE, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import AllWorkers, AnyWorker, Labelled, Named, OnResource, Target
from dragoman.model.terms import Terms


def dispatch_job(state: BrokerState, job: Job) -> None:
    """Dispatch a new job, or one that waited for its workers to register, as far as possible.

    A delayed job waits until it may start.
    """
    if job.starts_at > state.now:
        state.queues.delay(job)
        job.start_timer = state.deadlines.set(job.starts_at, TimerKind.START, job)
        return
    if is_single(job):
        enqueue(state, job.parts[0])
        return
    shares = (
        {} if waits_for_move(state, job) else resources_by_worker(state, job.service, job.target)
    )
    if not shares:
        _wait_unbound(state, job)
        return
    state.deadlines.cancel(job.unbound_timer)
    job.unbound_timer = None
    targets = [str(OnResource(resources)) for resources in shares.values() if resources]
    state.record(Kind.BOUND, job, detail="\n".join(shares), target="\n".join(targets))
    state.reply(job, ReplyKind.DISPATCHED, workers=tuple(shares))
    for part in job.parts:
        enqueue(state, part)


def _wait_unbound(state: BrokerState, job: Job) -> None:
    """Queue a job until workers that match its target register."""
    state.queues.of(job.service).unbound[job.id] = job
    job.request = None  # the ledger has it
    patience = job.terms.patience
    if patience is not None:
        # A job held for a resource move does not wait for a worker to register.
        limits = state.limits
        held = 2 * (limits.move_pause + limits.move_grace) if waits_for_move(state, job) else 0.0
        at = max(state.now + max(patience, held), state.recovery_ends_at)
        job.unbound_timer = state.deadlines.set(at, TimerKind.UNBOUND, job)


def waits_for_move(state: BrokerState, job: Job) -> bool:
    """Tell whether a job is for a resource that moves between workers now."""
    if not state.moving or not isinstance(job.target, OnResource):
        return False
    names = job.target.resources
    return any(name in state.moving for name in names) or any(
        fnmatchcase(moving, name) for moving in state.moving for name in names
    )


def bind_settled_jobs(state: BrokerState) -> None:
    """Bind the jobs that were held for resources whose move is over."""
    for job in state.queues.unbound():
        is_free = isinstance(job.target, OnResource) and not waits_for_move(state, job)
        if is_free and target_workers(state, job.service, job.target):
            _bind(state, job)


def _bind(state: BrokerState, job: Job) -> None:
    del state.queues.of(job.service).unbound[job.id]
    dispatch_job(state, job)
    state.queues.tidy(job.service)


def enqueue(state: BrokerState, part: JobPart) -> None:
    """Dispatch a part to a worker with room; if there is none, queue it.

    This is fair because of an invariant: a worker with room has no eligible queued part.
    """
    worker = _candidate(state, part)
    if worker is not None:
        dispatch_part(state, worker, part)
        return
    state.queues.push(part)
    start_patience(state, part)


def enqueue_after(state: BrokerState, part: JobPart, worker: RegisteredWorker | None) -> None:
    """Queue a part that a worker gave up, behind those that waited for the worker or a limit."""
    state.queues.push(part)
    if state.limiters.freed:
        serve_freed_limits(state)
    if worker is not None:
        fill_worker(state, worker)
    if part.queued_in is not None:
        state.queues.discard(part)
        enqueue(state, part)


def start_patience(state: BrokerState, part: JobPart) -> None:
    """Start a queued part's patience if no registered worker could ever take it."""
    patience = part.job.terms.patience
    if patience is None or is_served(state, part):
        return
    state.deadlines.cancel(part.patience_timer)
    if part.attempt:
        # patience = 0 applies only at submission. A replacement for a lost worker gets as long
        # to register as a returning worker does.
        patience = max(patience, state.limits.recovery_grace)
    at = max(state.now + patience, state.recovery_ends_at)
    if 0 < part.job.deadline_at <= at:
        part.patience_timer = None  # the job ends before
        return
    part.patience_timer = state.deadlines.set(at, TimerKind.PATIENCE, part)


def is_served(state: BrokerState, part: JobPart) -> bool:
    """Tell whether a registered worker could ever take a part, busy or not."""
    return can_serve(state, part.service, part.target, part.bound, part.job.terms.path)


def serve_part(state: BrokerState, part: JobPart) -> None:
    """Dispatch a queued part if a worker can take it now."""
    worker = _candidate(state, part)
    if worker is not None:
        _take_out(state, part)
        dispatch_part(state, worker, part)


def fill_worker(state: BrokerState, worker: RegisteredWorker) -> None:
    """Dispatch queued parts to a worker until it has no room, clients in round robin."""
    if state.queues.is_empty or state.registry.workers.get(worker.peer) is not worker:
        return
    while worker.has_room and (part := _next_for(state, worker)) is not None:
        _take_out(state, part)
        dispatch_part(state, worker, part)


def serve_freed_limits(state: BrokerState) -> None:
    """Dispatch parts that waited for limits with room again. Records of the event are written."""
    while state.limiters.freed:
        limiter = next(iter(state.limiters.freed))
        del state.limiters.freed[limiter]
        serve_limiter(state, limiter)


def serve_limiter(state: BrokerState, limiter: Limiter) -> None:
    """Dispatch parts that wait for a limiter, as far as it and the workers have room."""
    heads = ((lane.first(state.now), lane) for lane in list(limiter.waiting_lanes()))
    for _, lane in sorted(((head, lane) for head, lane in heads if head), key=lambda e: e[0]):
        _serve_lane(state, lane)


def _serve_lane(state: BrokerState, lane: QueueLane) -> None:
    while (head := lane.first(state.now)) is not None:
        worker = _candidate(state, head[1][4])
        if worker is None:
            break
        # Not this part at once: clients of other lanes may be next.
        fill_worker(state, worker)
    else:
        return
    # All workers are busy, or those with room refused the next part: they may take another one.
    for worker in list(_with_room(state, lane.service, lane.bound, lane.balance)):
        fill_worker(state, worker)


def fill_bound_workers(state: BrokerState) -> None:
    """Dispatch parts that are bound to a worker and waited for a resource move to end."""
    for name in state.queues.bound_names():
        for worker in state.registry.named(name):
            fill_worker(state, worker)


def _take_out(state: BrokerState, part: JobPart) -> None:
    state.queues.discard(part)
    state.queues.turns.served(part.queued_client, part.job.terms.weight)


def _next_for(state: BrokerState, worker: RegisteredWorker) -> JobPart | None:
    """Choose the next part for a worker, over all lanes that it may serve."""
    found: Ranked | None = None
    for lane in _lanes_for(state, worker):
        head = lane.first(state.now, lambda part: _accepts(state, worker, part))
        if head is not None and (found is None or head < found):
            found = head
    return found[1][4] if found else None


def _accepts(state: BrokerState, worker: RegisteredWorker, part: JobPart) -> bool:
    """Tell whether a worker may be offered this part."""
    if part.refused_by is not None and worker.name in part.refused_by:
        return False
    if state.moving and is_moving(state, part):
        return False
    # Replies name the job, not the part, so no worker holds two parts of one job.
    parts = part.job.parts
    return len(parts) == 1 or not any(p.key in worker.held for p in parts)


def dispatch_part(state: BrokerState, worker: RegisteredWorker, part: JobPart) -> None:
    """Dispatch a part to a worker."""
    job = part.job
    if part.patience_timer or part.retry_timer:
        state.deadlines.cancel(part.patience_timer)
        state.deadlines.cancel(part.retry_timer)
        part.patience_timer = part.retry_timer = None
    attempt = _next_attempt(part)
    seq = state.next_seq
    record = part_record(
        seq,
        state.now,
        Kind.DISPATCHED,
        part,
        by=worker,
        state="running",
        attempt=attempt,
        count=worker.request,
    )
    state.append(record)
    state.registry.hold(worker, part)
    state.limiters.hold(part)
    if state.store.families.has_open(job.id):
        state.registry.note_children(worker, part, True)
    run_until = _run_until(state, part, worker)
    # The worker's message is written first: the client's notice must not delay the work.
    work = work_of(part, worker.peer, run_until, seq)
    state.out.append(replace(work, terms=_terms_left(state, part)) if worker.route else work)
    if part.bound is None and part.attempt == 1:
        state.reply(job, ReplyKind.DISPATCHED, part=part, workers=(worker.name,))
    part.request = None  # if the part is dispatched again, the ledger has it


def work_of(part: JobPart, worker: PeerId, run_until: float | None, seq: int = 0) -> SendWork:
    """Return the effect that sends a part to its worker."""
    job, request = part.job, part.request
    return SendWork(
        worker,
        job.id,
        part.attempt,
        part.service,
        job.client,
        EMPTY if request is None else request,
        part.task,
        run_until,
        seq,
        job.terms.needs,
        str(part.target),
        job.terms.strict,
        part.request_seq if request is None else 0,
    )


def _terms_left(state: BrokerState, part: JobPart) -> Terms:
    """Return the terms for another broker: what is left of the job's time and of its retries."""
    job, terms = part.job, part.job.terms
    queue, retry = terms.queue_timeout, terms.retry
    return replace(
        terms,
        retry=retry and replace(retry, times=max(0, retry.times - part.failures)),
        timeout=max(0.0, job.deadline_at - state.now) if job.deadline_at else None,
        queue_timeout=None if queue is None else max(0.0, job.starts_at + queue - state.now),
        delay=0.0,
        not_before=0.0,
        # This broker answers the client; the other one must be able to repeat its result.
        result_ttl=None,
        webhook="",
    )


def _next_attempt(part: JobPart) -> int:
    """Return a part's next attempt number; (job, attempt) is unique per worker.

    Parts of a job run on different workers and count alone. Once a part moved they count together.
    """
    job = part.job
    if len(job.parts) > 1 and job.has_moved:
        return max(p.attempt for p in job.parts) + 1
    return part.attempt + 1


def _run_until(state: BrokerState, part: JobPart, worker: RegisteredWorker) -> float | None:
    """Start the attempt's run timer; return when the broker stops waiting for the worker.

    A worker that is a broker times the attempts itself: the job may wait in its queue first.
    """
    job = part.job
    run_timeout = job.terms.run_timeout
    if run_timeout is None or worker.route:
        return job.deadline_at or None
    until = state.now + run_timeout
    part.run_timer = state.deadlines.set(until, TimerKind.RUN, part)
    return min(until, job.deadline_at) if job.deadline_at else until


def _candidate(state: BrokerState, part: JobPart) -> RegisteredWorker | None:
    """Return the best worker with room for a part."""
    if part.service in state.store.queue.paused or not state.limiters.admits(part, state.now):
        return None
    wanted = part.target.requirements if type(part.target) is Labelled and not part.bound else ()
    terms = part.job.terms
    for worker in _with_room(state, part.service, part.bound, terms.balance):
        if _suits(worker, wanted, terms.needs, terms.path) and _accepts(state, worker, part):
            return worker
    return None


def _with_room(
    state: BrokerState, service: ServiceName, bound: WorkerName | None, balance: str
) -> Iterable[RegisteredWorker]:
    """Return the workers with room for a service, or those of one name; the best first."""
    if bound:
        return [w for w in state.registry.named(bound) if w.has_room]
    pool = state.registry.pools.get(service)
    return pool.in_order(balance) if pool else ()


def _suits(
    worker: RegisteredWorker,
    wanted: tuple[Requirement, ...],
    needs: Capacity,
    path: tuple[str, ...],
) -> bool:
    if wanted and not all(r.holds(worker.labels) for r in wanted):
        return False
    return worker.fits(needs) and worker.leads_away_from(path)


def _lanes_for(state: BrokerState, worker: RegisteredWorker) -> Iterator[QueueLane]:
    """Yield the lanes a worker may serve."""
    lanes = state.queues.bound_to(worker.name)
    for service in worker.services:
        queue = state.queues.find(service)
        if queue is not None:
            lanes += queue.lanes.values()
    paused = state.store.queue.paused
    if paused:
        lanes = [lane for lane in lanes if lane.service not in paused]
    return (lane for lane in lanes if _suits(worker, lane.wanted, lane.needs, lane.path))


def bind_waiting_jobs(state: BrokerState, worker: RegisteredWorker) -> None:
    """Bind the jobs that waited for a worker like this one to register."""
    for job in state.queues.unbound():
        is_free = _may_mean(job, worker) and not waits_for_move(state, job)
        if is_free and target_workers(state, job.service, job.target):
            _bind(state, job)


def _may_mean(job: Job, worker: RegisteredWorker) -> bool:
    """Tell whether a new worker can match a job's target. Names match in any service."""
    return job.service in (*worker.services, EVERY_SERVICE) or isinstance(job.target, Named)


def is_moving(state: BrokerState, part: JobPart) -> bool:
    """Tell whether a part is for a resource that moves between workers now."""
    return any(name in state.moving for name in part.resources)


def target_workers(
    state: BrokerState, service: ServiceName, target: Target
) -> tuple[WorkerName, ...]:
    """Return the names of the registered workers that a target with several parts matches."""
    return tuple(resources_by_worker(state, service, target))


def resources_by_worker(
    state: BrokerState, service: ServiceName, target: Target
) -> dict[WorkerName, tuple[str, ...]]:
    """Return the matching workers, each with the target's resources that it owns."""
    if not isinstance(target, OnResource):
        return {w.name: () for w in _targeted(state, service, target)}
    shares: dict[WorkerName, tuple[str, ...]] = {}
    for resource in _matched(state, target):
        owner = owner_of(state, service, resource)
        if owner is not None:
            shares[owner.name] = (*shares.get(owner.name, ()), resource)
    return shares


def _targeted(
    state: BrokerState, service: ServiceName, target: Target
) -> Iterable[RegisteredWorker]:
    registry = state.registry
    if isinstance(target, AllWorkers):
        # A broker runs a job on one of its workers, which is not all of them.
        found = [w for w in registry.members(service) if not w.route]
        return [w for w in found if not w.is_drained] or found
    if isinstance(target, Named):
        # A name matches a worker of any service, if this service has workers at all.
        is_served = any(True for _ in registry.members(service))
        return [w for n in target.names for w in registry.named(n)] if is_served else ()
    if isinstance(target, Labelled):
        return registry.matching(service, target.requirements)[:1]
    pools = list(registry.pools.values()) if service == EVERY_SERVICE else []
    ones = [next(p.in_order("least_loaded"), None) or next(iter(p.members.values())) for p in pools]
    return [worker for worker in ones if not worker.is_builtin and not worker.route]


def _matched(state: BrokerState, target: OnResource) -> Iterable[str]:
    """Return the owned resources that the target names or matches, each once."""
    owners = state.registry.owners
    found: dict[str, None] = {}
    for name in target.resources:
        matched = [name] if name in owners else [o for o in owners if fnmatchcase(o, name)]
        found.update(dict.fromkeys(matched))
    return found


def owner_of(state: BrokerState, service: ServiceName, resource: str) -> RegisteredWorker | None:
    """Return the least loaded owner of a resource that serves this service."""
    found = state.registry.owners.get(resource, {}).values()
    able = [w for w in found if service in (*w.services, EVERY_SERVICE)]
    return min(able, key=lambda w: (w.is_drained, len(w.held), w.used_at)) if able else None


def can_serve(
    state: BrokerState,
    service: ServiceName,
    target: Target,
    bound: WorkerName | None,
    path: tuple[str, ...] = (),
) -> bool:
    """Tell whether a registered worker could ever take this, busy or not."""
    registry = state.registry
    if bound:
        return any(w.leads_away_from(path) for w in registry.named(bound))
    if type(target) is AnyWorker and service != EVERY_SERVICE and not path:
        return service in registry.pools
    if service != EVERY_SERVICE and isinstance(target, AnyWorker | Labelled):
        wanted = target.requirements if isinstance(target, Labelled) else ()
        return any(w.leads_away_from(path) for w in registry.matching(service, wanted))
    return bool(target_workers(state, service, target))
