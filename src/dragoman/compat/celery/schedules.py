"""When periodic tasks run: Celery's `crontab`, as the cron expression that the broker reads."""

from datetime import timedelta

from dragoman.compat.hints import NotInCompat

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Crontab:
    """A cron expression: `crontab(hour=7, minute=30, day_of_week=1)`."""

    def __init__(
        self,
        minute: object = "*",
        hour: object = "*",
        day_of_week: object = "*",
        day_of_month: object = "*",
        month_of_year: object = "*",
    ) -> None:
        fields = (minute, hour, day_of_month, month_of_year, _days(day_of_week))
        #: The five fields of cron.
        self.expression = " ".join(_text(each) for each in fields)

    def __repr__(self) -> str:
        return f"<crontab: {self.expression}>"


crontab = Crontab


def _text(found: object) -> str:
    items = found if isinstance(found, list | tuple | set | frozenset) else [found]
    return ",".join(str(each).replace(" ", "") for each in items)


def _days(found: object) -> str:
    """Write days as numbers: the broker's cron has 0 for Sunday, as Celery has."""
    text = _text(found).lower()
    for number, name in enumerate(_DAYS):
        for long in (_LONG[number], name):
            text = text.replace(long, str(number))
    return text


_LONG = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


def timing(schedule: object, zone: str) -> dict[str, object]:
    """Return the members of a Dragoman schedule for one of Celery's."""
    if isinstance(schedule, Crontab):
        return {"cron": schedule.expression, "zone": zone}
    if isinstance(schedule, timedelta):
        return {"every": _whole(schedule.total_seconds())}
    if isinstance(schedule, int | float) and not isinstance(schedule, bool):
        return {"every": _whole(schedule)}
    raise NotInCompat(f"a schedule of type {type(schedule).__name__}", "use seconds or crontab")


def _whole(seconds: float) -> int:
    """Return whole seconds: the broker's schedules have no fractions."""
    if seconds != int(seconds):
        raise NotInCompat(f"a schedule of every {seconds:g} s", "use whole seconds")
    return int(seconds)
