"""What must be true of the desk after every event. Asserted by tests and the simulation."""

from dragoman.core.deadlines import Timer
from dragoman.core.dispatch import can_serve, is_moving
from dragoman.core.jobs import Job, JobPart
from dragoman.core.queues import QueueLane
from dragoman.core.registry import RegisteredWorker, WorkerRegistry
from dragoman.core.state import BrokerState
from dragoman.model.job import FINAL, JobState


def check(desk: BrokerState) -> None:
    """Assert every invariant; the message names the job, worker or lane that breaks it."""
    for job in desk.store.jobs.values():
        _check_job(desk, job)
    _check_holders(desk)
    _check_queues(desk)
    _check_pools(desk.registry)
    open_jobs = sum(not j.is_final for j in desk.store.jobs.values())
    assert desk.store.open_jobs == open_jobs, "open_jobs is miscounted"
    assert desk.cached_bytes == sum(desk.cached.values()), "cached results are miscounted"
    assert not desk.registry.drained, "a drained worker is kept"


def _check_job(desk: BrokerState, job: Job) -> None:
    timers = (job.due, job.queue_due, job.cancel_due, job.unbound_due)
    if job.is_final:
        assert all(p.state in FINAL for p in job.parts), f"{job.id} ended with open parts"
        assert all(t is None for t in timers), f"{job.id} ended with timers"
        assert all(p.request is None for p in job.parts), f"{job.id} keeps its request"
    else:
        _check_open_job(desk, job)
    for part in job.parts:
        _check_part(desk, part)


def _check_open_job(desk: BrokerState, job: Job) -> None:
    assert not job.deadline_at or _runs(job.due), f"{job.id} has lost its deadline"
    assert not job.cancel_asked_at or _runs(job.cancel_due), f"{job.id}: its cancel is forgotten"
    if job.parts:
        assert job.open_parts(), f"{job.id} is open and has nothing left to do"
        runs = any(p.state is JobState.RUNNING for p in job.parts)
        assert runs == (job.state is JobState.RUNNING), f"{job.id} is {job.state}, unlike its parts"
        return
    queue = desk.queues.find(job.service)
    assert queue and job.id in queue.unbound, f"{job.id} has no parts and does not wait"
    assert job.terms.patience is None or _runs(job.unbound_due), f"{job.id} waits for ever"


def _runs(timer: Timer | None) -> bool:
    return timer is not None and timer.due is not None


def _check_part(desk: BrokerState, part: JobPart) -> None:
    where = f"{part.key} ({part.state})"
    holder = desk.holder(part)
    if part.state is JobState.RUNNING:
        assert holder is not None and holder.held.get(part.key) is part, f"{where} is with nobody"
        assert part.queued_in is None, f"{where} runs and waits"
        is_timed = part.job.terms.run_timeout is not None
        assert not is_timed or _runs(part.runs_out), f"{where} may run for ever"
    else:
        assert holder is None or part.key not in holder.held, f"{where} is with {holder.name}"
    if part.state is JobState.QUEUED:
        _check_waiting(desk, part, where)
    if part.state in FINAL:
        timers = (part.patience, part.retry, part.runs_out)
        assert part.queued_in is None and not any(timers), f"{where} is not left alone"


def _check_waiting(desk: BrokerState, part: JobPart, where: str) -> None:
    assert part.request is not None, f"{where} has lost its request"
    assert not part.job.cancel_asked_at, f"{where} waits although it was cancelled"
    assert part.queued_in is not None or _runs(part.retry), f"{where} is forgotten"
    assert part.refused_by is None or _runs(part.retry), f"{where} is not offered again"
    if part.queued_in is None or part.job.terms.patience is None or _runs(part.patience):
        return
    is_served = can_serve(desk, part.service, part.target, part.bound)
    assert is_served, f"{where} waits for ever: nobody can take it"


def _check_holders(desk: BrokerState) -> None:
    assert not set(desk.absent) & set(desk.registry.workers), "a worker is both here and away"
    for worker in desk.absent.values():
        _check_held(worker)
        assert _runs(worker.absence_due), f"{worker.peer} is away for ever"
    for worker in desk.registry.workers.values():
        _check_held(worker)
        beats = _runs(worker.lease_due) and _runs(worker.beat_due)
        assert beats == (worker.beat_every is not None), f"{worker.peer}: beats"
    live = {p: w.name for p, w in desk.registry.workers.items()}
    assert live == desk.store.sessions, "the records tell of other worker sessions"


def _check_held(worker: RegisteredWorker) -> None:
    jobs = [part.job.id for part in worker.held.values()]
    assert len(jobs) == len(set(jobs)), f"{worker.peer} holds two parts of one job"
    for key, part in worker.held.items():
        assert part.key == key and part.peer == worker.peer, f"{worker.peer} holds {key}"
        assert part.state is JobState.RUNNING, f"{worker.peer} holds {key}, {part.state}"


def _check_queues(desk: BrokerState) -> None:
    everything = [p for lane in desk.queues.lanes() for p in lane.waiting()]
    for service in desk.queues.services():
        queue = desk.queues.of(service)
        waiting = [p for p in everything if p.service == service]
        assert queue.jobs or queue.unbound, f"the queue of {service} is empty and kept"
        assert queue.jobs == len(waiting), f"the queue of {service} is miscounted"
        size = sum(p.request.size for p in waiting if p.request)
        assert queue.bytes == size, f"the bytes waiting for {service} are miscounted"
    for lane in desk.queues.lanes():
        waiting = lane.waiting()
        assert len(lane) == len(waiting) > 0, f"lane {lane.key} is miscounted"
        assert all(p.queued_in is lane for p in waiting), f"lane {lane.key} has strangers"
        _check_no_one_idles(desk, lane, waiting)
    clients = {p.queued_client for p in everything}
    assert clients == set(desk.queues.turns.numbers), "turns are kept for the wrong clients"


def _check_no_one_idles(desk: BrokerState, lane: QueueLane, waiting: list[JobPart]) -> None:
    """No part waits while a worker that may take it has room (lost wake-up)."""
    pool = desk.registry.pools.get(lane.service)
    workers = desk.registry.named(lane.bound) if lane.bound else pool.ring.values() if pool else ()
    for worker in workers:
        if not worker.has_room or not all(r.holds(worker.labels) for r in lane.wanted):
            continue
        jobs = {p.job.id for p in worker.held.values()}
        for part in waiting:
            refused = part.refused_by is not None and worker.name in part.refused_by
            refused = refused or is_moving(desk, part)
            fits = worker.fits(part.job.terms.needs) and part.job.id not in jobs
            assert refused or not fits, f"{part.key} waits although {worker.peer} has room"


def _check_pools(registry: WorkerRegistry) -> None:
    for worker in registry.workers.values():
        assert worker.credit is None or worker.credit >= 0, f"{worker.peer} owes credit"
        assert registry.names[worker.name][worker.peer] is worker, f"{worker.name} is misnamed"
        for service in worker.services:
            pool = registry.pools[service]
            assert pool.members[worker.peer] is worker, f"{worker.peer} is not in {service}"
            assert (worker.peer in pool.ring) == worker.has_room, f"{worker.peer}: room"
            if worker.has_room:
                load = len(worker.held)
                assert pool.loads[worker.peer] == load, f"{worker.peer}: load"
                assert worker.peer in pool.by_load[load], f"{worker.peer}: bucket"
    for service, pool in registry.pools.items():
        assert pool.members, f"{service} has an empty pool"
        assert set(pool.members) <= set(registry.workers), f"{service} keeps one that left"
