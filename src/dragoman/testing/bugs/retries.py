"""Planted bugs of the task queue: a retry, a delayed job, a tick or a paused job starts wrongly."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dragoman.core import broker, dispatch, endings, job_store, recovery, retries
from dragoman.core.events import ScheduleTicked, WorkerJoined
from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.fault import Fault
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record
from dragoman.model.retry import TRY_AGAIN, asked_wait
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def retry_after_cancel() -> Iterator[None]:
    """A cancelled job that fails is tried again."""

    def retry_wait(
        state: BrokerState, part: JobPart, fault: Fault, worker: RegisteredWorker | None
    ) -> float | None:
        asked, part.job.cancel_asked_at = part.job.cancel_asked_at, 0.0
        try:
            return old(state, part, fault, worker)
        finally:
            part.job.cancel_asked_at = asked

    old = retries.retry_wait
    with replaced(endings, "retry_wait", retry_wait):
        yield


@BUGS.add
def one_retry_too_many() -> Iterator[None]:
    """A task that fails is tried once more than allowed."""

    def retry_wait(
        state: BrokerState, part: JobPart, fault: Fault, worker: RegisteredWorker | None
    ) -> float | None:
        terms, retry = part.job.terms, part.job.terms.retry
        if retry is not None and retry.times:
            part.job.terms = replace(terms, retry=replace(retry, times=retry.times + 1))
        try:
            return old(state, part, fault, worker)
        finally:
            part.job.terms = terms

    old = retries.retry_wait
    with replaced(endings, "retry_wait", retry_wait):
        yield


@BUGS.add
def back_off_forgotten_in_a_restart() -> Iterator[None]:
    """After a restart, a task that failed runs again at once."""

    def resume_job(state: BrokerState, job: Job) -> None:
        for part in job.parts:
            part.retry_at = 0.0
        old(state, job)

    old = recovery._resume_job
    with replaced(recovery, "_resume_job", resume_job):
        yield


@BUGS.add
def delay_forgotten_in_a_restart() -> Iterator[None]:
    """After a restart, a delayed job starts at once."""
    with replaced(recovery, "is_new", lambda job: False):
        yield


@BUGS.add
def tick_twice() -> Iterator[None]:
    """A tick that comes again makes another record and job."""

    def ticked(state: BrokerState, event: ScheduleTicked) -> None:
        found = state.store.queue.schedules.get(event.name)
        if found is not None and found.last_tick == event.tick:
            found.last_tick -= 1
        old(state, event)

    old = broker.HANDLERS[ScheduleTicked]
    with replaced(broker.HANDLERS, ScheduleTicked, ticked):  # type: ignore[arg-type]
        yield


@BUGS.add
def paused_service_is_dispatched() -> Iterator[None]:
    """A paused service gets jobs if a worker is free when they are submitted."""

    def candidate(state: BrokerState, part: JobPart) -> object:
        paused, state.store.queue.paused = state.store.queue.paused, {}
        try:
            return old(state, part)
        finally:
            state.store.queue.paused = paused

    old = dispatch._candidate
    with replaced(dispatch, "_candidate", candidate):
        yield


@BUGS.add
def drain_ends_with_the_session() -> Iterator[None]:
    """A drained worker that registers again gets jobs."""

    def joined(state: BrokerState, event: WorkerJoined) -> None:
        drained, state.store.queue.drained = state.store.queue.drained, {}
        try:
            old(state, event)
        finally:
            state.store.queue.drained = drained

    old = broker.HANDLERS[WorkerJoined]
    with replaced(broker.HANDLERS, WorkerJoined, joined):  # type: ignore[arg-type]
        yield


@BUGS.add
def try_again_waits_as_usual() -> Iterator[None]:
    """A task that says when it wants to run again runs after the usual back-off."""
    with replaced(retries, "asked_wait", lambda fault: None):
        yield


@BUGS.add
def try_again_does_not_count() -> Iterator[None]:
    """A task that asks for another try gets as many as it likes."""

    def requeued(self: JobStore, record: Record) -> None:
        old(self, record)
        if record.detail.startswith(TRY_AGAIN):
            self.jobs[JobId(record.job)].parts[record.part].failures -= 1

    old = job_store._STEPS[Kind.REQUEUED]
    with replaced(job_store._STEPS, Kind.REQUEUED, requeued):
        yield


@BUGS.add
def try_again_ends_the_job() -> Iterator[None]:
    """A task that asks for another try has failed."""

    def retry_wait(
        state: BrokerState, part: JobPart, fault: Fault, worker: RegisteredWorker | None
    ) -> float | None:
        return None if asked_wait(fault) is not None else old(state, part, fault, worker)

    old = retries.retry_wait
    with replaced(endings, "retry_wait", retry_wait):
        yield
