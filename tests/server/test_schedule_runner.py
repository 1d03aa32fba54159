"""Ticks of schedules: which are due, after which outage, in which zone."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.broker import Broker
from dragoman.core.effects import Append
from dragoman.core.events import EventDenied, ScheduleDeclared, ScheduleTicked
from dragoman.core.queue_state import QueueState, ScheduleState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import ANONYMOUS
from dragoman.model.retry import Retry
from dragoman.model.schedule import Schedule
from dragoman.server.schedule_runner import (
    MOST_MISSED,
    SETTINGS,
    ScheduleRunner,
    check_ticks,
    job_of,
    last_tick,
    ticks_after,
)


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def runner(schedule: Schedule, since: int, last: int = 0) -> tuple[ScheduleRunner, ScheduleState]:
    queue = QueueState()
    state = queue.schedules[schedule.name] = ScheduleState(schedule, 1, float(since))
    state.last_tick = last
    return ScheduleRunner(queue, lambda job: job), state


def due(schedule: Schedule, since: int, now: int, last: int = 0) -> list[tuple[int, str]]:
    events = runner(schedule, since, last)[0].take_due(float(now))
    assert all(isinstance(event, ScheduleTicked) for event in events)
    return [(e.tick, e.job.job if e.job else "") for e in events]  # type: ignore[union-attr]


EVERY = Schedule("s", "a", every=10)


def test_an_interval_counts_from_its_declaration() -> None:
    assert due(EVERY, 1003, 1012) == []
    assert due(EVERY, 1003, 1013) == [(1013, "schedule-s-1013")]
    assert runner(EVERY, 1003)[0].next_at() == 1013.0


def test_a_tick_that_is_on_record_is_not_due_again() -> None:
    assert due(EVERY, 1003, 1013, last=1013) == []
    assert due(EVERY, 1003, 1023, last=1013) == [(1023, "schedule-s-1023")]


def test_the_clock_may_go_backwards() -> None:
    assert due(EVERY, 1003, 1005, last=1013) == []


@pytest.mark.parametrize(
    ("catch_up", "ticks"), [("last", [1103]), ("all", list(range(1013, 1104, 10)))]
)
def test_after_an_outage_the_policy_decides(catch_up: str, ticks: list[int]) -> None:
    schedule = Schedule("s", "a", every=10, catch_up=catch_up)
    assert [tick for tick, _ in due(schedule, 1003, 1105)] == ticks


def test_missed_ticks_are_recorded_without_a_job_if_none_is_wanted() -> None:
    schedule = Schedule("s", "a", cron="0 * * * *", catch_up="none")
    since, now = at("2026-01-01T00:30"), at("2026-01-01T05:20")
    assert due(schedule, since, now) == [(at("2026-01-01T05:00"), "")]
    on_time = at("2026-01-01T05:00")
    assert due(schedule, since, on_time) == [(on_time, f"schedule-s-{on_time}")]


def test_a_long_outage_makes_a_bounded_number_of_jobs() -> None:
    schedule = Schedule("s", "a", every=1, catch_up="all")
    assert len(due(schedule, 0, 100_000)) == MOST_MISSED


def test_cron_follows_its_zone_over_daylight_saving() -> None:
    schedule = Schedule("s", "a", cron="30 3 * * *", zone="Europe/Berlin")
    ticks = ticks_after(schedule, 0, at("2026-03-28T12:00"))
    found = [datetime.fromtimestamp(next(ticks), UTC).isoformat() for _ in range(2)]
    assert found == ["2026-03-29T01:30:00+00:00", "2026-03-30T01:30:00+00:00"]


@given(st.integers(0, 4_000_000_000), st.sampled_from(["*/7 * * * *", "0 3 * * *", "5 4 * * 1"]))
def test_the_last_tick_and_the_next_ones_agree(now: int, cron: str) -> None:
    schedule = Schedule("s", "a", cron=cron, zone="Europe/Berlin")
    last = last_tick(schedule, 0, now)
    assert last <= now < next(ticks_after(schedule, 0, now))
    assert next(ticks_after(schedule, 0, last - 1)) == last


def test_a_paused_schedule_is_never_due() -> None:
    schedule = Schedule("s", "a", every=10, is_paused=True)
    assert runner(schedule, 1003)[0].next_at() is None
    assert due(schedule, 1003, 9999) == []


def test_a_changed_schedule_has_another_next_tick() -> None:
    ticks, state = runner(EVERY, 1000)
    assert ticks.next_at() == 1010.0
    state.schedule = Schedule("s", "a", every=3)
    assert ticks.next_at() == 1003.0


def test_options_and_jitter_become_terms_of_the_job() -> None:
    schedule = Schedule("s", "a", every=1, options={"retries": 2}, jitter=60.0, timeout=5.0)
    terms = job_of(schedule, 7, "j").terms
    assert terms.retry == Retry(2)
    assert (terms.timeout, terms.origin) == (5.0, "schedule s")
    assert 0 < terms.delay < 60
    assert job_of(schedule, 7, "j").terms.delay == terms.delay
    assert job_of(schedule, 8, "j").terms.delay != terms.delay


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule("s", "a", cron="* * *"),
        Schedule("s", "a", cron="* * * * *", zone="Mars/Base"),
        Schedule("s", "a", every=1, options={"retries": "many"}),
    ],
)
def test_what_cannot_be_meant_is_refused(schedule: Schedule) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_ticks(schedule)


def test_a_job_belongs_to_the_principal_of_its_schedule() -> None:
    assert job_of(Schedule("s", "a", every=5, principal="ada"), 5, "j").principal == "ada"
    assert job_of(EVERY, 5, "j").principal == ANONYMOUS


def test_a_tick_whose_principal_may_not_submit_is_recorded_without_a_job() -> None:
    schedule = Schedule("s", "a", every=10, source="nfp/ada", principal="ada")
    ticks, _ = runner(schedule, 1003)
    ticks.fault_of = lambda event: Fault(FaultCode.DENIED, f"{event.principal} may not")
    tick, denied = ticks.take_due(1013.0)
    assert tick == ScheduleTicked("s", 1013)
    assert isinstance(denied, EventDenied)
    assert (denied.principal, denied.fault.message) == ("ada", "ada may not")
    broker = Broker()
    broker.handle(ScheduleDeclared("s", schedule), 1003.0)
    effects = [*broker.handle(tick, 1013.0), *broker.handle(denied, 1013.0)]
    records = [effect.record for effect in effects if isinstance(effect, Append)]
    found = [(r.kind, r.job, r.principal, r.fault) for r in records]
    assert found == [
        ("ticked", "", ANONYMOUS, ""),
        ("refused", "schedule-s-1013", "ada", "denied"),
    ]


def test_the_schedules_of_the_settings_are_not_asked_about() -> None:
    ticks, _ = runner(Schedule("s", "a", every=10, source=SETTINGS), 1003)
    ticks.fault_of = lambda event: Fault(FaultCode.DENIED)
    assert len(ticks.take_due(1013.0)) == 1
