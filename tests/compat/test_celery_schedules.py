from datetime import timedelta

import pytest

from dragoman.compat.celery.schedules import crontab, timing
from dragoman.compat.hints import NotInCompat


@pytest.mark.parametrize(
    ("schedule", "expression"),
    [
        (crontab(), "* * * * *"),
        (crontab(minute=0, hour=0), "0 0 * * *"),
        (crontab(minute=0, hour="*/3"), "0 */3 * * *"),
        (crontab(hour=7, minute=30, day_of_week=1), "30 7 * * 1"),
        (crontab(minute="*", hour="3,17,22", day_of_week="thu,fri"), "* 3,17,22 * * 4,5"),
        (crontab(day_of_week="Sunday", hour=[1, 2]), "* 1,2 * * 0"),
        (crontab(0, 0, day_of_month="2", month_of_year="*/3"), "0 0 2 */3 *"),
    ],
)
def test_a_crontab_is_a_cron_expression(schedule: crontab, expression: str) -> None:
    assert timing(schedule, "UTC") == {"cron": expression, "zone": "UTC"}
    assert expression in repr(schedule)


def test_seconds_are_an_interval() -> None:
    assert timing(30.0, "UTC") == timing(timedelta(seconds=30), "UTC") == {"every": 30}
    assert type(timing(30.0, "UTC")["every"]) is int
    with pytest.raises(NotInCompat, match=r"every 0\.5 s"):
        timing(0.5, "UTC")
    with pytest.raises(NotInCompat, match="of type str"):
        timing("solar", "UTC")
