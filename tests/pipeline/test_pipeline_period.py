from datetime import UTC, date, datetime, timedelta

from dragoman.pipeline.period import period_of

NOON = datetime(2026, 1, 5, 12, 0, 30, 7, tzinfo=UTC)
LATER = NOON + timedelta(minutes=9)


def test_the_first_step_changes_the_minutes_of_its_records() -> None:
    period = period_of(NOON, LATER, None)
    assert (period.since, period.horizon) == (NOON.replace(second=0, microsecond=0), LATER)
    assert period.since_day == date(2026, 1, 5)


def test_a_later_step_also_changes_what_was_open_at_the_former_horizon() -> None:
    former = NOON - timedelta(days=1)
    period = period_of(NOON, LATER, former)
    assert period.since == former.replace(second=0, microsecond=0)
    assert period.since_day == date(2026, 1, 4)


def test_the_horizon_never_goes_back() -> None:
    assert period_of(NOON, LATER, LATER + timedelta(hours=1)).horizon == LATER + timedelta(hours=1)
