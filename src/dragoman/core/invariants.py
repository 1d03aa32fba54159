"""What must be true of the desk after every event. Asserted by tests and the simulation."""

from dragoman.core.book import Job, Part
from dragoman.core.desk import Desk
from dragoman.core.registry import Registry
from dragoman.model.job import FINAL, JobState


def check(desk: Desk) -> None:
    """Assert every invariant; the message names the job, worker or lane that breaks it."""
    for job in desk.book.jobs.values():
        _check_job(desk, job)
    _check_holders(desk)
    _check_queues(desk)
    _check_pools(desk.registry)
    open_jobs = sum(not j.is_final for j in desk.book.jobs.values())
    assert desk.book.open_jobs == open_jobs, "open_jobs is miscounted"
    assert desk.cached_bytes == sum(desk.cached.values()), "cached results are miscounted"


def _check_job(desk: Desk, job: Job) -> None:
    if job.is_final:
        assert all(p.state in FINAL for p in job.parts), f"{job.id} ended with open parts"
        timers = (job.due, job.queue_due, job.cancel_due, job.unbound_due)
        assert all(t is None for t in timers), f"{job.id} ended with timers"
        assert all(p.request is None for p in job.parts), f"{job.id} keeps its request"
    elif not job.parts:
        queue = desk.queues.find(job.service)
        assert queue and job.id in queue.unbound, f"{job.id} has no parts and does not wait"
    for part in job.parts:
        _check_part(desk, part)


def _check_part(desk: Desk, part: Part) -> None:
    where = f"{part.key} ({part.state})"
    holder = desk.holder(part)
    if part.state is JobState.RUNNING:
        assert holder is not None and holder.held.get(part.key) is part, f"{where} is with nobody"
        assert part.queued_in is None, f"{where} runs and waits"
    else:
        assert holder is None or part.key not in holder.held, f"{where} is with {holder.name}"
    if part.state is JobState.QUEUED:
        assert part.queued_in or part.retry, f"{where} is forgotten"
        assert part.request is not None, f"{where} has lost its request"
    if part.state in FINAL:
        timers = (part.patience, part.retry, part.runs_out)
        assert part.queued_in is None and not any(timers), f"{where} is not left alone"


def _check_holders(desk: Desk) -> None:
    assert not set(desk.absent) & set(desk.registry.workers), "a worker is both here and away"
    for worker in (*desk.registry.workers.values(), *desk.absent.values()):
        for key, part in worker.held.items():
            assert part.key == key and part.peer == worker.peer, f"{worker.peer} holds {key}"
            assert part.state is JobState.RUNNING, f"{worker.peer} holds {key}, {part.state}"
    live = {p: w.name for p, w in desk.registry.workers.items()}
    assert live == desk.book.sessions, "the records tell of other worker sessions"


def _check_queues(desk: Desk) -> None:
    for service in desk.queues.services():
        queue = desk.queues.of(service)
        waiting = [p for lane in queue.lanes.values() for p in lane.waiting()]
        assert queue.lanes or queue.unbound, f"the queue of {service} is empty and kept"
        assert queue.jobs == len(waiting), f"the queue of {service} is miscounted"
        size = sum(p.request.size for p in waiting if p.request)
        assert queue.bytes == size, f"the bytes waiting for {service} are miscounted"
        for lane in queue.lanes.values():
            assert len(lane) == len(lane.waiting()) > 0, f"lane {lane.key} is miscounted"
    for lane in desk.queues.lanes():
        _check_no_one_idles(desk, lane.service, bool(lane.bound or lane.wanted), lane.waiting())


def _check_no_one_idles(desk: Desk, service: str, is_special: bool, waiting: list[Part]) -> None:
    """No part waits for any worker while one with room is there (lost wake-up)."""
    pool = desk.registry.pools.get(service)  # type: ignore[call-overload]
    if is_special or pool is None:
        return
    for worker in pool.ring.values():
        for part in waiting:
            refused = part.refused_by is not None and worker.name in part.refused_by
            fits = worker.fits(part.job.terms.needs)
            assert refused or not fits, f"{part.key} waits although {worker.peer} has room"


def _check_pools(registry: Registry) -> None:
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
