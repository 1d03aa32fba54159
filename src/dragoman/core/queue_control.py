"""Schedules, dead letters, paused and limited services, drained workers.

What operators and the clock ask for.
"""

from dataclasses import replace

from dragoman.core.dispatch import bind_waiting_jobs, fill_worker
from dragoman.core.events import (
    DeadLetterDropped,
    ResultForgotten,
    ScheduleDeclared,
    ScheduleTicked,
    ServiceLimited,
    ServicePaused,
    WorkerDrained,
)
from dragoman.core.limit_state import rule_name
from dragoman.core.ownership import join_distributions
from dragoman.core.rebinding import rebind_from_departed
from dragoman.core.state import BrokerState
from dragoman.core.submissions import job_submitted
from dragoman.model.limit import NO_LIMIT, limit_text
from dragoman.model.record import Kind
from dragoman.model.schedule import schedule_text


def schedule_declared(state: BrokerState, event: ScheduleDeclared) -> None:
    """Record a new or changed schedule, or that it is removed."""
    if event.schedule is not None:
        state.record(Kind.SCHEDULED, detail=schedule_text(event.schedule))
    elif event.name in state.store.queue.schedules:
        state.record(Kind.UNSCHEDULED, detail=event.name)


def schedule_ticked(state: BrokerState, event: ScheduleTicked) -> None:
    """Submit the job of a tick, once, in the same batch as the record of the tick."""
    found = state.store.queue.schedules.get(event.name)
    if found is None or event.tick <= found.last_tick:
        return
    last = state.store.jobs.get(found.last_job)
    is_open = last is not None and not last.is_final
    job = None if is_open and found.schedule.overlap == "skip" else event.job
    state.record(
        Kind.TICKED,
        detail=schedule_text(found.schedule),
        count=event.tick,
        job=job.job if job else "",
        service=found.schedule.service,
        task=found.schedule.task,
    )
    if job is not None:
        job_submitted(state, job)


def dead_letter_dropped(state: BrokerState, event: DeadLetterDropped) -> None:
    """Drop a dead letter; submit the job that repeats it, if it is retried."""
    if event.job not in state.store.queue.dead:
        return
    again = event.again
    detail = f"retried as {again.job}" if again is not None else "dropped"
    letter = state.store.queue.dead[event.job]
    state.record(
        Kind.DROPPED,
        job=event.job,
        detail=detail,
        service=letter.service,
        task=letter.task,
        principal=event.principal,
    )
    if again is not None:
        job_submitted(state, again)


def result_forgotten(state: BrokerState, event: ResultForgotten) -> None:
    """Record that a result is given out no more; drop it from memory.

    The job may have left the memory: the record then speaks to those who read the ledger.
    """
    job = state.store.find(event.job)
    if job is None and not event.is_archived:
        return
    if job is not None and (not job.is_final or job.forgotten_at or state.is_held(job)):
        return
    state.record(
        Kind.RESULT_FORGOTTEN,
        job=job.id if job is not None else event.job,
        service=event.service,
        principal=event.principal,
    )
    if job is not None:
        state.drop_cached_result(job)


def service_paused(state: BrokerState, event: ServicePaused) -> None:
    """Stop or resume the dispatch of a service's jobs. Running jobs go on."""
    is_paused = event.service in state.store.queue.paused
    if event.is_paused == is_paused:
        return
    kind = Kind.PAUSED if event.is_paused else Kind.RESUMED
    state.record(kind, service=event.service, detail=event.reason, principal=event.principal)
    if not event.is_paused:
        _fill_workers(state)


def worker_drained(state: BrokerState, event: WorkerDrained) -> None:
    """Give the workers of a name no more jobs, or jobs again. What they hold goes on.

    Their sessions stay. So does the drain: it applies to each later registration of the name.
    """
    if event.is_drained == (event.worker in state.store.queue.drained):
        return
    kind = Kind.DRAINED if event.is_drained else Kind.UNDRAINED
    state.record(kind, worker=event.worker, detail=event.reason, principal=event.principal)
    for worker in state.registry.named(event.worker):
        worker.is_drained = event.is_drained
        state.registry.refresh(worker)
        if state.distributions:
            join_distributions(state, worker)
        if not worker.is_drained:
            if state.distributions or worker.resources:
                rebind_from_departed(state)
            fill_worker(state, worker)
            bind_waiting_jobs(state, worker)


def _fill_workers(state: BrokerState) -> None:
    for worker in list(state.registry.workers.values()):
        fill_worker(state, worker)


def service_limited(state: BrokerState, event: ServiceLimited) -> None:
    """Set or remove the limit of a service or task. Running jobs count, and go on."""
    name = rule_name(event.service, event.task)
    limit = replace(event.limit, key="")
    if state.store.queue.limits.rules.get(name, NO_LIMIT) == limit:
        return
    state.record(
        Kind.LIMITED,
        service=event.service,
        task=event.task,
        detail=limit_text(limit),
        principal=event.principal,
    )
    for worker in (*state.registry.workers.values(), *state.absent.values()):
        for part in worker.held.values():
            if part.service.partition("@")[0] == event.service:
                state.limiters.release(part)
                state.limiters.hold(part)
    state.queues.sort_again(event.service)
    _fill_workers(state)
