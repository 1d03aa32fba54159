"""What the records say of schedules, dead letters, pauses, drains, limits and unique keys.

Part of the fold. `JobStore` applies records to it; nothing else changes it.
"""

from dataclasses import fields
from typing import Any, Final

from dragoman.core.jobs import Job
from dragoman.core.limit_state import LimitState
from dragoman.core.unique_jobs import UniqueJobs
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.record import Record
from dragoman.model.schedule import Schedule, read_schedule, schedule_text
from dragoman.model.value import value

#: The most dead letters that are kept; older ones are dropped.
MOST_DEAD: Final = 10_000


class ScheduleState:
    """One schedule and its last tick."""

    __slots__ = ("last_job", "last_tick", "schedule", "seq", "since", "skipped")

    def __init__(self, schedule: Schedule, seq: int, since: float) -> None:
        self.schedule = schedule
        #: The newest record about it, and when it was declared first.
        self.seq = seq
        self.since = since
        #: 0: none yet.
        self.last_tick = 0
        self.last_job = JobId("")
        #: Ticks without a job since the last job.
        self.skipped = 0


@value
class DeadLetter:
    """A job that failed although it was tried again, kept for people."""

    job: JobId
    service: ServiceName
    task: str
    client: str
    #: A `JobState`.
    state: str
    fault: str
    detail: str
    attempts: int
    failures: int
    submitted_at: float
    ended_at: float


_LETTER: Final = tuple(each.name for each in fields(DeadLetter))


class QueueState:
    """Schedules by name, dead letters by job, pauses with their reason, limits, unique keys."""

    def __init__(self) -> None:
        self.schedules: dict[str, ScheduleState] = {}
        self.dead: dict[JobId, DeadLetter] = {}
        self.paused: dict[ServiceName, str] = {}
        #: The names of drained workers, with the reason.
        self.drained: dict[WorkerName, str] = {}
        self.limits = LimitState()
        self.uniques = UniqueJobs()

    def scheduled(self, record: Record) -> None:
        """Apply a `scheduled` record."""
        schedule = read_schedule(record.detail)
        known = self.schedules.get(schedule.name)
        if known is None:
            self.schedules[schedule.name] = ScheduleState(schedule, record.seq, record.at)
        else:
            known.schedule, known.seq = schedule, record.seq

    def unscheduled(self, record: Record) -> None:
        """Apply an `unscheduled` record."""
        self.schedules.pop(record.detail, None)

    def ticked(self, record: Record) -> None:
        """Apply a `ticked` record. It repeats the schedule, so that older records may go."""
        self.scheduled(record)
        found = self.schedules[read_schedule(record.detail).name]
        found.last_tick = record.count
        found.skipped = 0 if record.job else found.skipped + 1
        found.last_job = JobId(record.job) or found.last_job

    def ended(self, job: Job) -> None:
        """Keep a job that died, or that failed although it had retries."""
        failures = sum(part.failures for part in job.parts)
        is_tried = (job.terms.retry is not None and job.terms.retry.times) or failures
        if job.state is not JobState.DEAD and not (job.state is JobState.FAILED and is_tried):
            return
        self.dead[job.id] = DeadLetter(
            job.id,
            job.service,
            job.task,
            job.client,
            job.state.value,
            job.fault.code.value if job.fault else "",
            job.fault.message if job.fault else "",
            max((part.attempt for part in job.parts), default=0),
            failures,
            job.submitted_at,
            job.ended_at,
        )
        if len(self.dead) > MOST_DEAD:
            del self.dead[next(iter(self.dead))]

    def dropped(self, record: Record) -> None:
        """Apply a `dropped` record."""
        self.dead.pop(JobId(record.job), None)

    def paused_service(self, record: Record) -> None:
        """Apply a `paused` record."""
        self.paused[ServiceName(record.service)] = record.detail

    def resumed_service(self, record: Record) -> None:
        """Apply a `resumed` record."""
        self.paused.pop(ServiceName(record.service), None)

    def drained_worker(self, record: Record) -> None:
        """Apply a `drained` record."""
        self.drained[WorkerName(record.worker)] = record.detail

    def undrained_worker(self, record: Record) -> None:
        """Apply an `undrained` record."""
        self.drained.pop(WorkerName(record.worker), None)

    def rows(self) -> list[object]:
        """Return everything as plain values, for a snapshot."""
        schedules = [
            [schedule_text(s.schedule), s.seq, s.since, s.last_tick, s.last_job, s.skipped]
            for s in self.schedules.values()
        ]
        dead = [[getattr(d, name) for name in _LETTER] for d in self.dead.values()]
        flow = dict(self.paused), self.limits.rows(), self.uniques.rows(), dict(self.drained)
        return [schedules, dead, *flow]

    @classmethod
    def of_rows(cls, rows: list[Any]) -> "QueueState":
        """Return the state that `rows` was made from."""
        state = cls()
        for text, seq, since, last_tick, last_job, skipped in rows[0]:
            found = ScheduleState(read_schedule(text), seq, since)
            found.last_tick, found.last_job, found.skipped = last_tick, last_job, skipped
            state.schedules[found.schedule.name] = found
        for row in rows[1]:
            letter = DeadLetter(**dict(zip(_LETTER, row, strict=True)))
            state.dead[letter.job] = letter
        state.paused = rows[2]
        state.limits = LimitState.of_rows(rows[3])
        state.uniques = UniqueJobs.of_rows(rows[4])
        state.drained = rows[5]
        return state

    def as_recorded(self) -> tuple[object, ...]:
        """Return everything, to compare two folds."""
        ticks = {
            name: (s.schedule, s.last_tick, s.last_job, s.skipped, s.since)
            for name, s in self.schedules.items()
        }
        return ticks, dict(self.dead), dict(self.paused), dict(self.drained)
