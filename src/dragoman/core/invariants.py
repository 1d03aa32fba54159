"""Invariants of the broker state after every event. Asserted by tests and the simulation."""

from dragoman.core.deadlines import Timer
from dragoman.core.dispatch import is_moving, is_served
from dragoman.core.jobs import Job, JobPart
from dragoman.core.lanes import QueueLane
from dragoman.core.queues import BODY_OVERHEAD
from dragoman.core.registry import RegisteredWorker, WorkerRegistry, load_of
from dragoman.core.state import BrokerState
from dragoman.model.job import FINAL, JobState


def check(state: BrokerState) -> None:
    """Assert every invariant; the message names the job, worker or lane that violates it."""
    for job in state.store.jobs.values():
        _check_job(state, job)
    _check_holders(state)
    _check_queues(state)
    _check_pools(state.registry)
    _check_limiters(state)
    open_jobs = sum(not j.is_final for j in state.store.jobs.values())
    assert state.store.open_jobs == open_jobs, "open_jobs is miscounted"
    assert state.cached_bytes == sum(state.cached.values()), "cached results are miscounted"
    assert not state.orphaning, "the children of a job that ended are not cancelled yet"
    _check_children(state)
    assert not state.registry.drained, "a drained worker still has a session"


def _check_children(state: BrokerState) -> None:
    jobs, families = state.store.jobs, state.store.families
    for job in jobs.values():
        assert families.has_open(job.id) == bool(families.open_of(job.id)), f"{job.id}: children"
        parent = jobs.get(job.parent) if job.parent else None
        is_current = families.child_at(job.parent, job.position) is job
        is_held = job.is_final and is_current and parent is not None and not parent.is_final
        assert is_held == (job.id in families.held), f"{job.id}: held for its parent, wrongly"
        if parent is None or job.is_final or job.cancel_asked_at:
            continue
        has_failed = parent.is_final and parent.state is not JobState.SUCCEEDED
        assert not has_failed, f"{job.id} goes on although its parent {parent.id} has ended"
        assert not parent.cancel_asked_at or parent.is_final, f"{job.id}: its parent is cancelled"
        assert not parent.deadline_at or 0 < job.deadline_at <= parent.deadline_at, (
            f"{job.id} may outlive the deadline of its parent {parent.id}"
        )


def _check_job(state: BrokerState, job: Job) -> None:
    timers = (
        *(job.start_timer, job.deadline_timer, job.queue_timer),
        *(job.cancel_timer, job.unbound_timer),
    )
    if job.is_final:
        assert all(p.state in FINAL for p in job.parts), f"{job.id} ended with open parts"
        assert all(t is None for t in timers), f"{job.id} ended with running timers"
        assert all(p.request is None for p in job.parts), f"{job.id} ended and keeps its request"
    else:
        _check_open_job(state, job)
    for part in job.parts:
        _check_part(state, part)


def _check_open_job(state: BrokerState, job: Job) -> None:
    assert not job.deadline_at or _runs(job.deadline_timer), f"{job.id} has lost its deadline"
    assert not job.cancel_asked_at or _runs(job.cancel_timer), f"{job.id}: its cancel has no timer"
    queue = state.queues.find(job.service)
    is_delayed = queue is not None and job.id in queue.delayed
    assert is_delayed == _runs(job.start_timer), f"{job.id} is delayed without a timer, or reverse"
    if job.parts:
        assert job.open_parts(), f"{job.id} is open without open parts"
        runs = any(p.state is JobState.RUNNING for p in job.parts)
        assert runs == (job.state is JobState.RUNNING), f"{job.id} is {job.state}, unlike its parts"
        return
    if is_delayed:
        return
    assert queue and job.id in queue.unbound, f"{job.id} has no parts and is not queued"
    assert job.terms.patience is None or _runs(job.unbound_timer), (
        f"{job.id} waits without a patience timer"
    )


def _runs(timer: Timer | None) -> bool:
    return timer is not None and timer.kind is not None


def _check_part(state: BrokerState, part: JobPart) -> None:
    where = f"{part.key} ({part.state})"
    holder = state.holder(part)
    if part.state is JobState.RUNNING:
        assert holder is not None and holder.held.get(part.key) is part, (
            f"{where} runs without a worker"
        )
        assert part.queued_in is None, f"{where} runs and is queued"
        is_timed = part.job.terms.run_timeout is not None
        is_far = bool(holder.route)
        assert is_far or not is_timed or _runs(part.run_timer), f"{where} runs without a run timer"
    else:
        assert holder is None or part.key not in holder.held, f"{where} is held by {holder.name}"
    if part.state is JobState.QUEUED:
        _check_waiting(state, part, where)
    if part.state in FINAL:
        timers = (part.patience_timer, part.retry_timer, part.run_timer)
        assert part.queued_in is None and not any(timers), f"{where} is final, but queued or timed"


def _check_waiting(state: BrokerState, part: JobPart, where: str) -> None:
    assert part.request_seq, f"{where} has lost its request"
    assert not part.job.cancel_asked_at, f"{where} is queued although it was cancelled"
    timers = (part.retry_timer, part.job.start_timer)
    assert part.queued_in is not None or any(map(_runs, timers)), (
        f"{where} is neither queued nor due for a retry"
    )
    assert part.queued_in is None or not _runs(part.job.start_timer), f"{where} is queued too soon"
    assert part.refused_by is None or _runs(part.retry_timer), (
        f"{where} was refused and has no retry timer"
    )
    if part.queued_in is None or part.job.terms.patience is None or _runs(part.patience_timer):
        return
    # A deadline that ends the job before its patience would, needs no second timer.
    is_timed = bool(part.job.deadline_at)
    assert is_timed or is_served(state, part), (
        f"{where} waits without a patience timer: no worker can take it"
    )


def _check_holders(state: BrokerState) -> None:
    assert not set(state.absent) & set(state.registry.workers), (
        "a worker is both connected and absent"
    )
    for worker in state.absent.values():
        _check_held(worker)
        assert _runs(worker.absence_timer), f"{worker.peer} is absent without a timer"
    has_open = state.store.families.has_open
    for worker in state.registry.workers.values():
        _check_held(worker)
        parents = {key for key, part in worker.held.items() if has_open(part.job.id)}
        assert worker.parents == parents, f"{worker.peer}: its parents are miscounted"
        beats = _runs(worker.lease_timer) and _runs(worker.beat_timer)
        assert beats == (worker.beat_every is not None), f"{worker.peer}: beats"
        is_drained = worker.name in state.store.queue.drained
        assert worker.is_drained == is_drained, f"{worker.peer}: drained"
    live = {p: w.name for p, w in state.registry.workers.items()}
    assert live == state.store.sessions, "the recorded worker sessions differ"


def _check_held(worker: RegisteredWorker) -> None:
    jobs = [part.job.id for part in worker.held.values()]
    assert len(jobs) == len(set(jobs)), f"{worker.peer} holds two parts of one job"
    for key, part in worker.held.items():
        assert part.key == key and part.peer == worker.peer, f"{worker.peer} holds {key}"
        assert part.state is JobState.RUNNING, f"{worker.peer} holds {key}, {part.state}"


def _check_queues(state: BrokerState) -> None:
    everything = [p for lane in state.queues.lanes() for p in lane.waiting()]
    for service in state.queues.services():
        queue = state.queues.of(service)
        waiting = [p for p in everything if p.service == service]
        assert queue.jobs or queue.unbound or queue.delayed, f"the empty queue of {service} is kept"
        assert queue.jobs == len(waiting), f"the queue of {service} is miscounted"
        size = sum(p.nbytes for p in waiting) + sum(j.nbytes for j in queue.delayed.values())
        assert queue.bytes == size, f"the bytes waiting for {service} are miscounted"
    kept = sum(p.nbytes + BODY_OVERHEAD for p in everything if p.request is not None)
    assert state.queues.body_bytes == kept, "the bodies in memory are miscounted"
    assert kept <= state.queues.body_limit, "queued bodies take more memory than they may"
    for lane in state.queues.lanes():
        waiting = lane.waiting()
        assert len(lane) == len(waiting) > 0, f"lane {lane.key} is miscounted"
        assert all(p.queued_in is lane for p in waiting), (
            f"lane {lane.key} has a part of another lane"
        )
        _check_no_idle_worker(state, lane, waiting)
    clients = {p.queued_client for p in everything}
    assert clients == set(state.queues.turns.numbers), (
        "round-robin turns exist for the wrong clients"
    )


def _check_no_idle_worker(state: BrokerState, lane: QueueLane, waiting: list[JobPart]) -> None:
    """Assert that no part waits while an eligible worker has room (lost wake-up)."""
    if lane.service in state.store.queue.paused:
        return
    pool = state.registry.pools.get(lane.service)
    workers = (
        state.registry.named(lane.bound)
        if lane.bound
        else [*pool.by_last_use.values(), *pool.prefetching.values()]
        if pool
        else ()
    )
    for worker in workers:
        if not worker.has_room or not all(r.holds(worker.labels) for r in lane.wanted):
            continue
        jobs = {p.job.id for p in worker.held.values()}
        for part in waiting:
            refused = part.refused_by is not None and worker.name in part.refused_by
            refused = refused or is_moving(state, part)
            refused = refused or not worker.leads_away_from(lane.path)
            fits = worker.fits(part.job.terms.needs) and part.job.id not in jobs
            if fits and not refused:
                limited = _is_limited(state, part)
                assert limited, f"{part.key} waits although {worker.peer} has room"


def _is_limited(state: BrokerState, part: JobPart) -> bool:
    """Tell whether a part waits for a limit, although a worker has room."""
    rules = state.limiters.rules_of(part)
    if state.limiters.blocking(rules, state.now) is None:
        return False
    # A reached limit is looked at again when it has room, and then the part's other limits.
    is_watched = any(_runs(limiter.timer) or limiter.is_full(limit) for limiter, limit in rules)
    assert is_watched, f"{part.key} waits for a token without a timer"
    return True


def _check_limiters(state: BrokerState) -> None:
    """Assert that each limiter counts exactly the parts that run under it, and waits rightly."""
    holders = (*state.registry.workers.values(), *state.absent.values())
    running: dict[str, set[JobPart]] = {}
    for part in (part for worker in holders for part in worker.held.values()):
        for limiter, _ in state.limiters.rules_of(part):
            running.setdefault(limiter.name, set()).add(part)
    for name, limiter in state.limiters.by_name.items():
        assert set(limiter.running) == running.get(name, set()), f"limit {name} is miscounted"
        is_ruled = name in state.store.queue.limits.rules
        assert is_ruled or not limiter.is_idle, f"limit {name} is kept although nothing needs it"
    assert not state.limiters.freed, "a limit with room was not offered"


def _check_pools(registry: WorkerRegistry) -> None:
    for worker in registry.workers.values():
        assert worker.credit is None or worker.credit >= 0, f"{worker.peer} has negative credit"
        assert 0 <= worker.extra <= worker.prefetch, f"{worker.peer} prefetches too much"
        assert registry.names[worker.name][worker.peer] is worker, f"{worker.name} is misnamed"
        for service in worker.services:
            pool = registry.pools[service]
            assert pool.members[worker.peer] is worker, f"{worker.peer} is not in {service}"
            assert (worker.peer in pool.loads) == worker.has_room, f"{worker.peer}: room"
            if worker.has_room:
                load = load_of(worker)
                assert pool.loads[worker.peer] == load, f"{worker.peer}: load"
                assert worker.peer in pool.by_load[load], f"{worker.peer}: bucket"
    for service, pool in registry.pools.items():
        assert pool.members, f"{service} has an empty pool"
        assert set(pool.members) <= set(registry.workers), f"{service} has a member that left"
