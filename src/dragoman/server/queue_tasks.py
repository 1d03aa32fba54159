"""Management of the task queue: schedules, dead letters, paused services, drained workers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from dragoman.core.events import (
    DeadLetterDropped,
    Event,
    JobSubmitted,
    ResultForgotten,
    ScheduleDeclared,
    ServicePaused,
    WorkerDrained,
)
from dragoman.core.jobs import Job
from dragoman.core.queue_state import DeadLetter, QueueState, ScheduleState
from dragoman.core.registry import RegisteredWorker
from dragoman.ledger.base import Entry
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault
from dragoman.model.names import ANONYMOUS, JobId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.schedule import Schedule
from dragoman.model.target import parse_target
from dragoman.model.terms import read_terms
from dragoman.server.loop import Loop
from dragoman.server.schedule_runner import (
    OPERATOR,
    QUEUE_CLIENT,
    SETTINGS,
    ScheduleRunner,
    check_ticks,
    job_of,
)
from dragoman.services.base import ServiceFault, ServiceSession, TaskFunction

#: Seconds that a change may take to be on disk.
_PATIENCE: Final = 10.0
_MEMBERS: Final = tuple(
    f.name for f in fields(Schedule) if f.name not in ("is_paused", "source", "principal")
)


class QueueTasks:
    """The tasks, by name in `tasks`. A change is on disk before its answer is sent."""

    def __init__(self, loop: Loop, runner: ScheduleRunner, new_id: Callable[[], str]) -> None:
        self._loop = loop
        self._runner = runner
        self._new_id = new_id
        #: Why a principal may not touch jobs of others of a service; security sets it.
        self.fault_of_others: Callable[[Principal, str], Fault | None] = lambda who, service: None
        #: Changes that wait for the disk: the kind of their record, and who waits.
        self._waiting: list[tuple[Kind, asyncio.Future[None]]] = []
        loop.listeners.append(self._durable)
        self.tasks: dict[str, TaskFunction] = {
            "list_schedules": self.schedules,
            "add_schedule": self.add_schedule,
            "pause_schedule": self.pause_schedule,
            "resume_schedule": self.resume_schedule,
            "run_schedule": self.run_schedule,
            "remove_schedule": self.remove_schedule,
            "list_dead": self.dead,
            "show_dead": self.show_dead,
            "retry_dead": self.retry_dead,
            "drop_dead": self.drop_dead,
            "forget_result": self.forget_result,
            "pause_service": self.pause_service,
            "resume_service": self.resume_service,
            "drain_worker": self.drain_worker,
            "undrain_worker": self.undrain_worker,
            "list_drained": self.drained,
        }

    @property
    def _queue(self) -> QueueState:
        return self._loop.broker.state.store.queue

    async def _record(self, event: Event, kind: Kind) -> None:
        """Have an event handled; return when a record of its kind is durable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((kind, done))
        self._loop.submit(event)
        try:
            async with asyncio.timeout(_PATIENCE):
                await done
        except TimeoutError:
            raise ServiceFault("the change is not on disk yet; look again later") from None
        finally:
            self._waiting.remove((kind, done))

    def _durable(self, entries: Sequence[Entry]) -> None:
        if self._waiting:
            kinds = {entry.record.kind for entry in entries}
            for kind, done in self._waiting:
                if kind in kinds and not done.done():
                    done.set_result(None)

    # --- schedules ----------------------------------------------------------------------------

    def schedules(self) -> list[dict[str, object]]:
        """Return the schedules, with their last and next ticks."""
        found = sorted(self._queue.schedules.values(), key=lambda each: each.schedule.name)
        return [self._row(each) for each in found]

    def _row(self, state: ScheduleState) -> dict[str, object]:
        found = {f.name: getattr(state.schedule, f.name) for f in fields(Schedule)}
        last = self._loop.broker.state.store.jobs.get(state.last_job)
        return found | {
            "args": list(state.schedule.args),
            "last_tick": state.last_tick,
            "last_job": state.last_job,
            "last_state": last.state.value if last else "",
            "next_tick": self._runner.next_of(state) or 0,
            "skipped": state.skipped,
        }

    async def add_schedule(
        self, session: ServiceSession, members: dict[str, Any]
    ) -> dict[str, object]:
        """Add a schedule, or replace the one of the same name."""
        if not isinstance(members, dict):
            raise ServiceFault(f"a schedule is an object with {', '.join(_MEMBERS)}")
        unknown = [name for name in members if name not in _MEMBERS]
        if unknown:
            raise ServiceFault(f"a schedule has no {unknown[0]!r}; use {', '.join(_MEMBERS)}")
        try:
            given = {**members, "args": tuple(members.get("args") or ())}
            whose = self._principal_of(session)
            schedule = Schedule(**given, source=session.client, principal=whose)
            check_ticks(schedule)
        except (TypeError, ValueError, Unmappable) as error:
            raise ServiceFault(str(error)) from None
        await self._declare(schedule)
        return self._row(self._queue.schedules[schedule.name])

    def _principal_of(self, session: ServiceSession) -> str:
        """Return who made a call. Without security that is nobody in particular."""
        job = self._loop.broker.state.store.jobs.get(JobId(session.job))
        return "" if job is None or job.principal == ANONYMOUS else job.principal

    def _whose(self, session: ServiceSession) -> Principal:
        return Principal(self._principal_of(session) or ANONYMOUS)

    async def _declare(self, schedule: Schedule) -> None:
        await self._record(ScheduleDeclared(schedule.name, schedule), Kind.SCHEDULED)

    def _find(self, name: str) -> ScheduleState:
        if name not in self._queue.schedules:
            known = ", ".join(sorted(self._queue.schedules)) or "none"
            raise ServiceFault(f"there is no schedule {name!r}; known are {known}")
        return self._queue.schedules[name]

    async def pause_schedule(self, name: str) -> dict[str, object]:
        """Let a schedule make no jobs until it is resumed."""
        await self._declare(replace(self._find(name).schedule, is_paused=True))
        return self._row(self._find(name))

    async def resume_schedule(self, name: str) -> dict[str, object]:
        """Let a schedule make jobs again; `catch_up` decides about the ticks in between."""
        await self._declare(replace(self._find(name).schedule, is_paused=False))
        return self._row(self._find(name))

    async def run_schedule(self, name: str) -> dict[str, str]:
        """Submit the job of a schedule now, beside its ticks."""
        made = job_of(self._find(name).schedule, 0, f"schedule-{name}-{self._new_id()}")
        job = replace(made, terms=replace(made.terms, delay=0.0))
        hook = job.terms.webhook
        fault = self._loop.engine.hook_fault(hook) if hook else None
        fault = fault or self._runner.denial(self._find(name).schedule, job)
        if fault is not None:
            raise ServiceFault(f"{job.principal}, who added it, may not submit it: {fault.message}")
        await self._record(self._loop.engine.terms.apply(job), Kind.SUBMITTED)
        return {"schedule": name, "job": job.job}

    async def remove_schedule(self, name: str) -> dict[str, str]:
        """Remove a schedule. Its jobs go on."""
        self._find(name)
        await self._record(ScheduleDeclared(name), Kind.UNSCHEDULED)
        return {"schedule": name, "status": "removed"}

    # --- dead letters -------------------------------------------------------------------------

    def dead(
        self, service: str = "", fault: str = "", older: float = 0.0, limit: int = 100
    ) -> list[dict[str, object]]:
        """Return dead letters, the newest first; `older`: ended so many seconds ago or more."""
        before = self._loop.clock.now() - older
        found = (
            letter
            for letter in reversed(self._queue.dead.values())
            if service in ("", letter.service)
            and fault in ("", letter.fault)
            and letter.ended_at <= before
        )
        return [_letter(letter) for letter, _ in zip(found, range(limit), strict=False)]

    def _dead(self, job: str) -> DeadLetter:
        letter = self._queue.dead.get(JobId(job))
        if letter is None:
            raise ServiceFault(f"{job!r} is no dead letter; `dragoman dead list` lists them")
        return letter

    def show_dead(self, job: str) -> dict[str, object]:
        """Return a dead letter with the history of its attempts."""
        records = [r for r in self._loop.ledger.history(JobId(job)) if r.kind in _HISTORY]
        history = [
            {
                "at": round(r.at, 3),
                "kind": r.kind,
                "attempt": r.attempt,
                "worker": r.worker,
                "fault": r.fault,
                "detail": r.detail,
            }
            for r in records
        ]
        return _letter(self._dead(job)) | {"history": history}

    async def retry_dead(self, session: ServiceSession, job: str) -> dict[str, str]:
        """Submit a dead letter again as a new job that is linked to the old one."""
        again = self._again(self._dead(job))
        await self._record(DeadLetterDropped(JobId(job), again), Kind.DROPPED)
        return {"job": again.job, "retries": job}

    def _again(self, letter: DeadLetter) -> JobSubmitted:
        found = self._loop.archive.submission(letter.job)
        if found is None:
            raise ServiceFault(f"the ledger no longer has the request of {letter.job}")
        record, body = found
        terms = replace(
            read_terms(record.terms), delay=0.0, not_before=0.0, origin=f"job {letter.job}"
        )
        return JobSubmitted(
            JobId(self._new_id()),
            QUEUE_CLIENT,
            ServiceName(record.service),
            body,
            parse_target(record.target),
            terms,
            record.task,
            principal=Principal(record.principal),
        )

    async def drop_dead(self, job: str) -> dict[str, str]:
        """Drop a dead letter. The ledger keeps its history."""
        self._dead(job)
        await self._record(DeadLetterDropped(JobId(job)), Kind.DROPPED)
        return {"job": job, "status": "dropped"}

    # --- results ------------------------------------------------------------------------------

    async def forget_result(self, session: ServiceSession, job: str) -> dict[str, str]:
        """Give the result of a finished job out no more. The ledger keeps its records."""
        found = self._finished(job)
        caller = self._loop.broker.state.store.jobs.get(JobId(session.job))
        principal = caller.principal if caller is not None else ANONYMOUS
        if principal != found.principal:
            fault = self.fault_of_others(principal, found.service)
            if fault is not None:
                raise ServiceFault(f"job {found.id} belongs to {found.principal}: {fault.message}")
        if not found.forgotten_at:
            event = ResultForgotten(found.id, found.service, principal, is_archived=True)
            await self._record(event, Kind.RESULT_FORGOTTEN)
        return {"job": found.id, "status": "forgotten"}

    def _finished(self, job: str) -> Job:
        """Return a finished job, from the ledger if it has left the memory."""
        state = self._loop.broker.state
        found = state.store.find(JobId(job)) or self._loop.archive.job(JobId(job))
        if found is None:
            raise ServiceFault(f"job {job!r} is not known here, or its retention is over")
        if not found.is_final:
            raise ServiceFault(f"job {job} has not ended; cancel it, or wait for its end")
        if state.is_held(found):
            words = f"job {job} is a step of the open job {found.parent}, which may need its result"
            raise ServiceFault(f"{words}; forget it when that has ended")
        return found

    # --- flow ---------------------------------------------------------------------------------

    async def pause_service(
        self, session: ServiceSession, service: str, reason: str = ""
    ) -> dict[str, object]:
        """Dispatch no jobs of a service until it is resumed. Running jobs go on."""
        workers = self._loop.broker.state.registry.workers.values()
        if any(w.is_builtin and service in w.services for w in workers):
            raise ServiceFault(f"{service} is built in; it cannot be paused")
        if service not in self._queue.paused:
            event = ServicePaused(ServiceName(service), True, reason, self._whose(session))
            await self._record(event, Kind.PAUSED)
        return {"service": service, "status": "paused"}

    async def resume_service(self, session: ServiceSession, service: str) -> dict[str, object]:
        """Dispatch the jobs of a service again."""
        if service not in self._queue.paused:
            raise ServiceFault(f"{service} is not paused")
        event = ServicePaused(ServiceName(service), False, principal=self._whose(session))
        await self._record(event, Kind.RESUMED)
        return {"service": service, "status": "resumed"}

    async def drain_worker(
        self, session: ServiceSession, worker: str, reason: str = ""
    ) -> dict[str, object]:
        """Give a worker no more jobs until it is undrained. It finishes what it holds."""
        found = self._workers_named(worker)
        if not found and worker not in self._queue.drained:
            raise ServiceFault(f"there is no worker {worker!r}; `dragoman workers` lists them")
        if any(each.is_builtin for each in found):
            raise ServiceFault(f"{worker} is built in; it cannot be drained")
        if worker not in self._queue.drained:
            await self._set_drained(session, worker, True, reason)
        holding = sum(len(each.held) for each in found)
        return {"worker": worker, "status": "drained", "holding": holding}

    async def undrain_worker(self, session: ServiceSession, worker: str) -> dict[str, object]:
        """Give a drained worker jobs again."""
        if worker not in self._queue.drained:
            raise ServiceFault(f"{worker} is not drained; `dragoman drain` lists drained workers")
        await self._set_drained(session, worker, False)
        return {"worker": worker, "status": "undrained"}

    async def _set_drained(
        self, session: ServiceSession, worker: str, is_drained: bool, reason: str = ""
    ) -> None:
        event = WorkerDrained(WorkerName(worker), is_drained, reason, self._whose(session))
        await self._record(event, Kind.DRAINED if is_drained else Kind.UNDRAINED)

    def _workers_named(self, name: str) -> list[RegisteredWorker]:
        state = self._loop.broker.state
        away = [each for each in state.absent.values() if each.name == name]
        return [*state.registry.named(WorkerName(name)), *away]

    def drained(self) -> list[dict[str, object]]:
        """Return the names of drained workers, connected or not, with the reason."""
        return [
            {
                "worker": name,
                "reason": reason,
                "holding": sum(len(each.held) for each in self._workers_named(name)),
                "is_here": bool(self._loop.broker.state.registry.named(name)),
            }
            for name, reason in sorted(self._queue.drained.items())
        ]


_HISTORY: Final = frozenset(
    {Kind.SUBMITTED, Kind.DISPATCHED, Kind.REQUEUED, Kind.GATHERED, Kind.ENDED, Kind.DROPPED}
)


def _letter(letter: DeadLetter) -> dict[str, object]:
    return {f.name: getattr(letter, f.name) for f in fields(DeadLetter)}


def declare_schedules(loop: Loop, declared: Sequence[Schedule]) -> None:
    """Declare the schedules of the settings; remove those that are no longer there."""
    known = loop.broker.state.store.queue.schedules
    names = {schedule.name for schedule in declared}
    for name, state in known.items():
        if state.schedule.source == SETTINGS and name not in names:
            loop.submit(ScheduleDeclared(name))
    for schedule in declared:
        old = known.get(schedule.name)
        is_paused = old is not None and old.schedule.is_paused
        wanted = replace(schedule, source=SETTINGS, principal=OPERATOR, is_paused=is_paused)
        if old is None or old.schedule != wanted:
            loop.submit(ScheduleDeclared(schedule.name, wanted))
