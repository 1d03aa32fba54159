"""Who gets what: binding targets to workers, letting parts wait, giving them out.

Every function here may be called at any time; it does what can be done now and leaves the rest
waiting. Nothing here ends a job.
"""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from dragoman.core.book import Job, Part, is_single
from dragoman.core.deadlines import Due
from dragoman.core.desk import Desk
from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyKind
from dragoman.core.queues import Lane
from dragoman.core.registry import Worker
from dragoman.model.job import JobState
from dragoman.model.names import EVERY_SERVICE, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import AllWorkers, AnyWorker, Labelled, Named, OnResource, Target


def place(desk: Desk, job: Job) -> None:
    """Let a new job, or one whose workers were not there yet, go as far as it can now."""
    if is_single(job):
        enqueue(desk, job.parts[0])
        return
    names = names_for(desk, job.service, job.target)
    if not names:
        _wait_unbound(desk, job)
        return
    desk.deadlines.cancel(job.unbound_due)
    desk.note_job(Kind.BOUND, job, detail="\n".join(names))
    desk.reply(job, ReplyKind.DISPATCHED, workers=names)
    for part in job.parts:
        enqueue(desk, part)


def _wait_unbound(desk: Desk, job: Job) -> None:
    """Let a job wait for workers that its target means."""
    desk.queues.of(job.service).unbound[job.id] = job
    patience = job.terms.patience
    if patience is not None:
        desk.deadlines.cancel(job.unbound_due)
        job.unbound_due = desk.deadlines.set(desk.now + patience, Due.UNBOUND, job)


def enqueue(desk: Desk, part: Part) -> None:
    """Let a part wait for a worker, and give it out at once if there is one."""
    serve_lane(desk, desk.queues.push(part))
    if part.state is JobState.QUEUED:
        arm_patience(desk, part)


def arm_patience(desk: Desk, part: Part) -> None:
    """Start a waiting part's patience if nobody is there who could ever take it."""
    patience = part.job.terms.patience
    if patience is None or can_serve(desk, part.service, part.job.target, part.bound):
        return
    desk.deadlines.cancel(part.patience)
    part.patience = desk.deadlines.set(desk.now + patience, Due.PATIENCE, part)


def serve_lane(desk: Desk, lane: Lane) -> None:
    """Give out of a lane what workers have room for."""
    while len(lane) and any(_offer(desk, w, lane) for w in _candidates(desk, lane)):
        pass


def feed(desk: Desk, worker: Worker) -> None:
    """Give a worker with room whatever waits for one like it, lane by lane in turn."""
    while worker.has_room and any(_offer(desk, worker, lane) for lane in _lanes_for(desk, worker)):
        pass


def _offer(desk: Desk, worker: Worker, lane: Lane) -> bool:
    """Give a worker the next part of a lane that it did not refuse."""
    part = lane.take(lambda p: p.refused_by is None or worker.name not in p.refused_by)
    if part is None:
        return False
    if len(lane):
        lanes = desk.queues.of(lane.service).lanes
        if len(lanes) > 1:
            lanes[lane.key] = lanes.pop(lane.key)
    desk.queues.taken(part, lane)
    give(desk, worker, part)
    return True


def give(desk: Desk, worker: Worker, part: Part) -> None:
    """Dispatch a part to a worker."""
    job = part.job
    desk.deadlines.cancel(part.patience)
    desk.deadlines.cancel(part.retry)
    part.attempt += 1
    seq = desk.note(Kind.DISPATCHED, part, state="running", worker=worker)
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
            str(job.target),
            job.terms.strict,
        )
    )


def _run_until(desk: Desk, part: Part) -> float | None:
    """Set the attempt's own deadline; return when the worker's time is over."""
    job = part.job
    run_timeout = job.terms.run_timeout
    if run_timeout is None:
        return job.deadline_at or None
    until = desk.now + run_timeout
    part.runs_out = desk.deadlines.set(until, Due.RUN, part)
    return min(until, job.deadline_at) if job.deadline_at else until


def _candidates(desk: Desk, lane: Lane) -> Iterator[Worker]:
    """Yield the workers that have room for a lane, the best choice first."""
    found: Iterable[Worker]
    if lane.bound:
        found = [w for w in desk.registry.named(lane.bound) if w.has_room]
    else:
        pool = desk.registry.pools.get(lane.service)
        found = pool.in_order(lane.balance) if pool else ()
    return (w for w in found if _suits(w, lane))


def _suits(worker: Worker, lane: Lane) -> bool:
    if lane.wanted and not all(r.holds(worker.labels) for r in lane.wanted):
        return False
    return worker.fits(lane.needs)


def _lanes_for(desk: Desk, worker: Worker) -> Iterator[Lane]:
    """Yield the lanes a worker may take from, the least recently served first."""
    lanes = desk.queues.bound_to(worker.name)
    for service in worker.services:
        queue = desk.queues.find(service)
        if queue is not None:
            lanes += [lane for lane in queue.lanes.values() if not lane.bound]
    return (lane for lane in lanes if _suits(worker, lane))


def bind_waiting(desk: Desk, worker: Worker) -> None:
    """Bind the jobs that waited for somebody like this worker to come."""
    for service in (*worker.services, EVERY_SERVICE):
        queue = desk.queues.find(service)
        for job in list(queue.unbound.values()) if queue else ():
            if names_for(desk, job.service, job.target):
                del queue.unbound[job.id]  # type: ignore[union-attr]
                place(desk, job)
        desk.queues.tidy(service)


def names_for(desk: Desk, service: ServiceName, target: Target) -> tuple[WorkerName, ...]:
    """Return the workers a target with several parts is for, as they are registered now."""
    return tuple(dict.fromkeys(w.name for w in _targeted(desk, service, target)))


def _targeted(desk: Desk, service: ServiceName, target: Target) -> Iterable[Worker]:
    registry = desk.registry
    if isinstance(target, AllWorkers):
        return registry.members(service)
    if isinstance(target, Named):
        # A name reaches its worker whatever its service, as long as somebody serves this one.
        anybody = any(True for _ in registry.members(service))
        return [w for n in target.names for w in registry.named(n)] if anybody else ()
    if isinstance(target, OnResource):
        return _owners(desk, service, target)
    if isinstance(target, Labelled):
        return registry.matching(service, target.requirements)[:1]
    pools = list(registry.pools.values()) if service == EVERY_SERVICE else []
    return [next(p.in_order("least_loaded"), None) or next(iter(p.members.values())) for p in pools]


def _owners(desk: Desk, service: ServiceName, target: OnResource) -> list[Worker]:
    """Return, for each resource named or matched, its least loaded owner."""
    owners = desk.registry.owners
    wanted: dict[str, None] = {}
    for name in target.resources:
        matched = [name] if name in owners else [o for o in owners if fnmatchcase(o, name)]
        wanted.update(dict.fromkeys(matched))
    found = []
    for resource in wanted:
        able = [w for w in owners[resource].values() if service in (*w.services, EVERY_SERVICE)]
        if able:
            found.append(min(able, key=lambda w: (len(w.held), w.used_at)))
    return found


def can_serve(desk: Desk, service: ServiceName, target: Target, bound: WorkerName | None) -> bool:
    """Whether anybody is registered who could ever take this, busy or not."""
    registry = desk.registry
    if bound:
        return bound in registry.names
    if service != EVERY_SERVICE and isinstance(target, AnyWorker):
        return service in registry.pools
    if service != EVERY_SERVICE and isinstance(target, Labelled):
        return bool(registry.matching(service, target.requirements))
    return bool(names_for(desk, service, target))
