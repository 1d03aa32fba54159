"""Computes the ticks of schedules and makes the job of each. No job is made twice for a tick.

The core ignores a tick that is not newer than the last one on record, and records tick and job
together. So a crash at any point neither repeats nor loses a tick.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Final
from zlib import crc32
from zoneinfo import ZoneInfo

import structlog
from cronsim import CronSim, CronSimError

from dragoman.core.events import Event, EventDenied, JobSubmitted, ScheduleTicked
from dragoman.core.queue_state import QueueState, ScheduleState
from dragoman.dialects.local.body_codec import NAME, LocalBodyCodec
from dragoman.model.content import Call
from dragoman.model.fault import Fault
from dragoman.model.job_options import apply_options
from dragoman.model.names import ANONYMOUS, JobId, PeerId, Principal, ServiceName, peer_id
from dragoman.model.schedule import Schedule, check_schedule
from dragoman.model.target import parse_target
from dragoman.model.terms import Terms

log = structlog.get_logger("dragoman.schedules")

#: The client of scheduled and retried jobs. Their results are read by job id.
QUEUE_CLIENT: Final[PeerId] = peer_id(NAME, "queue")
#: The source of schedules that the settings declare, and the principal of their jobs.
SETTINGS: Final = "settings"
OPERATOR: Final = "operator"
#: The most jobs for missed ticks of one schedule, with `catch_up = all`.
MOST_MISSED: Final = 100
#: With `catch_up = none`, a tick is missed if it is so many seconds late.
LATE: Final = 60
_CODEC: Final = LocalBodyCodec()


def check_ticks(schedule: Schedule) -> None:
    """Raise ValueError if a schedule cannot be meant, also for its cron expression and zone."""
    check_schedule(schedule)
    job_of(schedule, 0, "check")
    if schedule.cron:
        next(ticks_after(schedule, 0, 0), None)


def ticks_after(schedule: Schedule, since: int, after: int) -> Iterator[int]:
    """Yield the ticks of a schedule after an instant. Raises ValueError."""
    if schedule.every:
        first = since + ((after - since) // schedule.every + 1) * schedule.every
        while True:
            yield first
            first += schedule.every
    for found in _cron(schedule, after):
        yield int(found.timestamp())


def last_tick(schedule: Schedule, since: int, at: int) -> int:
    """Return the last tick that is not after an instant."""
    if schedule.every:
        return since + (at - since) // schedule.every * schedule.every
    # The search runs backwards from the next second: an exact tick counts.
    found = next(_cron(schedule, at + 1, reverse=True), None)
    return int(found.timestamp()) if found is not None else 0


def _cron(schedule: Schedule, at: int, *, reverse: bool = False) -> Iterator[datetime]:
    try:
        zone = ZoneInfo(schedule.zone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"schedule {schedule.name}: unknown time zone {schedule.zone}") from None
    try:
        return CronSim(schedule.cron, datetime.fromtimestamp(at, UTC).astimezone(zone), reverse)
    except CronSimError as error:
        text = f"schedule {schedule.name}: cron {schedule.cron!r}: {error}"
        raise ValueError(text) from None


def job_of(schedule: Schedule, tick: int, job: str) -> JobSubmitted:
    """Return the job of a tick. Raises ValueError."""
    jitter = schedule.jitter * crc32(f"{schedule.name} {tick}".encode()) / 2**32
    terms = Terms(patience=None, timeout=schedule.timeout, priority=schedule.priority)
    terms = apply_options(terms, schedule.options)
    made = replace(terms, delay=terms.delay + jitter, origin=f"schedule {schedule.name}")
    call = Call(schedule.task, schedule.args, dict(schedule.kwargs), timeout=schedule.timeout)
    body, target = _CODEC.write_call(call), parse_target(schedule.target)
    service, whose = ServiceName(schedule.service), Principal(schedule.principal or ANONYMOUS)
    return JobSubmitted(
        JobId(job), QUEUE_CLIENT, service, body, target, made, schedule.task, principal=whose
    )


class ScheduleRunner:
    """The schedules of one broker. Implements `engine.Ticks`."""

    def __init__(
        self, queue: QueueState, apply_terms: Callable[[JobSubmitted], JobSubmitted]
    ) -> None:
        self._queue = queue
        self._apply_terms = apply_terms
        #: Returns why a principal may not submit a job now. Replaced while security is on.
        self.fault_of: Callable[[JobSubmitted], Fault | None] = lambda event: None
        #: By schedule: what the next tick was computed from, and the tick.
        self._next: dict[str, tuple[Schedule, int, int | None]] = {}

    def next_at(self) -> float | None:
        """Return when the next tick is due; None: never."""
        found = (self.next_of(each) for each in self._queue.schedules.values())
        return min((float(tick) for tick in found if tick is not None), default=None)

    def next_of(self, state: ScheduleState) -> int | None:
        """Return the first tick that is not on record; None: the schedule is paused or over."""
        schedule, last = state.schedule, state.last_tick or int(state.since)
        if schedule.is_paused:
            return None
        known = self._next.get(schedule.name)
        if known is None or known[0] != schedule or known[1] != last:
            tick = next(self._ticks(state, last), None)
            known = self._next[schedule.name] = (schedule, last, tick)
        return known[2]

    def _ticks(self, state: ScheduleState, after: int) -> Iterator[int]:
        try:
            yield from ticks_after(state.schedule, int(state.since), after)
        except ValueError as error:
            # It was accepted by another version, or the machine has lost its time zones.
            log.error("schedule not understood; it makes no jobs", reason=str(error))

    def take_due(self, now: float) -> list[Event]:
        """Return an event for each tick that is due."""
        return [
            event
            for state in self._queue.schedules.values()
            if (first := self.next_of(state)) is not None and first <= now
            for event in self._due(state, first, int(now))
        ]

    def _due(self, state: ScheduleState, first: int, now: int) -> Iterable[Event]:
        schedule, since = state.schedule, int(state.since)
        last = max(last_tick(schedule, since, now), first)
        if schedule.catch_up == "none" and now - last > LATE:
            return [ScheduleTicked(schedule.name, last)]
        if schedule.catch_up != "all":
            return self._ticked(schedule, last)
        after = state.last_tick or since
        missed = islice(takewhile(lambda t: t <= now, self._ticks(state, after)), MOST_MISSED)
        return [event for tick in missed for event in self._ticked(schedule, tick)]

    def _ticked(self, schedule: Schedule, tick: int) -> list[Event]:
        job = self._apply_terms(job_of(schedule, tick, f"schedule-{schedule.name}-{tick}"))
        fault = self.denial(schedule, job)
        if fault is None:
            return [ScheduleTicked(schedule.name, tick, job)]
        log.warning("scheduled job denied", schedule=schedule.name, reason=fault.message)
        return [ScheduleTicked(schedule.name, tick), EventDenied(job, fault, job.principal)]

    def denial(self, schedule: Schedule, job: JobSubmitted) -> Fault | None:
        """Return why a schedule may not submit its job now. The settings are the operator's."""
        return None if schedule.source == SETTINGS else self.fault_of(job)
