"""What comes next for each service: when its queue empties, when its load reaches its workers.

The forecast of a queue is one of persistence: jobs go on to arrive and to leave at the mean rates
of the last part of the period. The forecast of a load continues a straight line. Neither knows new
workers; `docs/pipeline.md` has the method in words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dragoman.pipeline import charts
from dragoman.pipeline.report_parts import Select, count_if, sum_of

#: Seconds that the forecast of a queue looks back: a quarter of the period, within these bounds.
_LEAST_BACK: Final = 60.0
_MOST_BACK: Final = 3_600.0
_DAY: Final = 86_400.0
#: Parts of a period that is shorter than so many days; longer ones have a part for each day.
_PARTS: Final = 12
_LEAST_DAYS: Final = 4
_MOST_DAYS: Final = 28
#: Standard deviations, and standard errors, up to which a difference counts as none.
_CHANCE: Final = 2


@dataclass(frozen=True)
class QueueForecast:
    """When the queue of a service is empty, if its rates stay what they were."""

    waiting: int
    #: Jobs that came to the queue and that left it, over so many minutes.
    arrived: int
    left: int
    minutes: float

    @property
    def minutes_to_empty(self) -> float | None:
        """Minutes until no job waits; None if that never happens."""
        if not self.waiting:
            return 0.0
        is_emptying = self.left > self.arrived and not self.is_steady
        return self.waiting * self.minutes / (self.left - self.arrived) if is_emptying else None

    @property
    def is_steady(self) -> bool:
        """Whether the two counts differ by no more than chance."""
        return abs(self.arrived - self.left) <= _CHANCE * math.sqrt(self.arrived + self.left)

    @property
    def is_used(self) -> bool:
        """Whether a job came, left or waits."""
        return bool(self.waiting or self.arrived or self.left)

    @property
    def is_good(self) -> bool:
        """Whether the queue does not grow."""
        return self.minutes_to_empty is not None or self.is_steady

    def words(self, now: float) -> str:
        """Say what is to be expected."""
        ahead = self.minutes_to_empty
        if ahead is None:
            more = (self.arrived - self.left) / self.minutes
            return "stays about as it is" if self.is_steady else f"grows by {more:.3g} a minute"
        return f"empties at {_instant(now, ahead * 60)}" if ahead else "is empty"


@dataclass(frozen=True)
class LoadForecast:
    """When the load of a service reaches the places of its workers, if it goes on in a line."""

    #: Jobs that came in each part of the period, and the seconds of a part.
    arrived: tuple[int, ...]
    part: float
    #: Seconds of work that a job makes on average.
    work: float
    #: Connected workers, and the jobs that they have shown to run at one time.
    workers: int
    places: int

    @property
    def loads(self) -> tuple[float, ...]:
        """The places that the work of each part needs."""
        return tuple(n * self.work / self.part for n in self.arrived)

    @property
    def slope(self) -> float:
        """How many places more the load needs each second; 0 if that may be chance."""
        slope, error = _line(self.loads, self.part)
        return slope if abs(slope) > _CHANCE * error else 0.0

    @property
    def level(self) -> float:
        """The load at the end of the period: that of the line, or the mean if there is none."""
        mean = sum(self.loads) / len(self.loads)
        return max(0.0, mean + self.slope * self.part * len(self.loads) / 2)

    @property
    def seconds_to_capacity(self) -> float | None:
        """Seconds until the load reaches the places; None if that is too far ahead to say."""
        if self.level >= self.places:
            return 0.0
        ahead = (self.places - self.level) / self.slope if self.slope > 0 else math.inf
        return ahead if ahead <= self.part * len(self.loads) else None

    @property
    def is_good(self) -> bool:
        """Whether the workers suffice as far ahead as the forecast looks."""
        return not self.level or self.seconds_to_capacity is None

    def words(self, now: float) -> str:
        """Say what is to be expected."""
        ahead = self.seconds_to_capacity
        if not self.level:
            return "no work"
        if not self.places:
            return "no worker is connected"
        if ahead is None:
            return self._stays_below()
        return f"reaches capacity at {_instant(now, ahead)}" if ahead else "is at capacity"

    def _stays_below(self) -> str:
        if self.slope > 0:
            ahead = charts.span(self.part * len(self.loads) * 1e6)
            return f"grows, not to capacity within {ahead}"
        return "falls" if self.slope else "stays about as it is"


@dataclass(frozen=True)
class ServiceForecast:
    """What is to be expected of one service."""

    service: str
    queue: QueueForecast
    load: LoadForecast


def look_back(begun: float, over: float) -> float:
    """Return the seconds that the forecast of a queue is made from."""
    return min(max((over - begun) / 4, _LEAST_BACK), _MOST_BACK)


def parts_of(begun: float, over: float) -> tuple[int, float]:
    """Return into how many parts a period is divided, and how many seconds each has.

    Parts of a day or more leave out what the hours of the day do.
    """
    days = int((over - begun) // _DAY)
    if days >= _LEAST_DAYS:
        return min(days, _MOST_DAYS), _DAY
    return _PARTS, max(over - begun, 1.0) / _PARTS


def service_forecasts(select: Select, begun: float, over: float) -> list[ServiceForecast]:
    """Return a forecast for each service with work: first those where most jobs wait."""
    queues, loads = _queues(select, begun, over), _loads(select, begun, over)
    number, part = parts_of(begun, over)
    no_queue = QueueForecast(0, 0, 0, look_back(begun, over) / 60)
    no_load = LoadForecast((0,) * number, part, 0.0, 0, 0)
    found = [
        ServiceForecast(name, queues.get(name, no_queue), loads.get(name, no_load))
        for name in queues | loads
    ]
    found.sort(key=lambda one: (-one.queue.waiting, -one.queue.arrived, one.service))
    return found


def _queues(select: Select, begun: float, over: float) -> dict[str, QueueForecast]:
    back = look_back(begun, over)
    since = int((over - back) * 1e6)
    left = (
        f"coalesce(unix_micros(started_at), unix_micros(ended_at), 0) >= {since}"
        " and coalesce(started_at, ended_at) is not null"
    )
    found = select(
        f"service, {count_if('started_at is null and ended_at is null', 'waiting')}, "
        f"{count_if(f'unix_micros(submitted_at) >= {since}', 'arrived')}, {count_if(left, 'gone')}",
        "jobs",
        more="group by 1",
    )
    return {
        row["service"]: QueueForecast(row["waiting"], row["arrived"], row["gone"], back / 60)
        for row in found
    }


def _loads(select: Select, begun: float, over: float) -> dict[str, LoadForecast]:
    number, part = parts_of(begun, over)
    since = int((over - number * part) * 1e6)
    arrived = _arrivals(select, since, number, part)
    work, offers = _work(select, since), _offers(select, since)
    found = {}
    for name, counts in arrived.items():
        places = offers.get(name, {})
        found[name] = LoadForecast(
            tuple(counts), part, work.get(name, 0.0), len(places), sum(places.values())
        )
    return found


#: Jobs by the service that ran them: after a forward that is another than they were sent to.
_ARRIVALS: Final = (
    "(select case when served_by <> '' then served_by else service end as service, submitted_at"
    " from jobs) as arrivals"
)
_ENDED: Final = "(select served_by as service, ended_at from jobs where started_at is not null)"
#: How many assignments each worker has, after each change. An end counts before a start.
_RUNNING: Final = """(
    select worker, service, sum(change) over (
        partition by worker order by moment, change
        rows between unbounded preceding and current row) as running
    from (
        select worker, service, ended_at, dispatched_at as moment, 1 as change from assignments
        union all
        select worker, service, ended_at, ended_at as moment, -1 as change from assignments
        where ended_at is not null) as changes
    where ended_at is null or unix_micros(ended_at) >= {since}) as running"""


def _arrivals(select: Select, since: int, number: int, part: float) -> dict[str, list[int]]:
    bucket = f"cast(floor((unix_micros(submitted_at) - {since}) / {int(part * 1e6)}) as bigint)"
    found = select(
        f"service, {bucket} as part, count(*) as n",
        _ARRIVALS,
        f"unix_micros(submitted_at) >= {since}",
        "group by 1, 2",
    )
    counts: dict[str, list[int]] = {}
    for row in found:
        # The newest instant is the end of the last part.
        at = min(row["part"], number - 1)
        counts.setdefault(row["service"], [0] * number)[at] += row["n"]
    return counts


def _work(select: Select, since: int) -> dict[str, float]:
    """Return the seconds of work of a job: all its assignments together, on average."""
    recent = f"ended_at is not null and unix_micros(ended_at) >= {since}"
    spent = select(f"service, {sum_of('run_us', 'us')}", "assignments", recent, "group by 1")
    ended = select("service, count(*) as n", f"{_ENDED} as ended", recent, "group by 1")
    jobs = {row["service"]: row["n"] for row in ended}
    return {
        row["service"]: row["us"] / 1e6 / jobs[row["service"]]
        for row in spent
        if row["service"] in jobs
    }


def _offers(select: Select, since: int) -> dict[str, dict[str, int]]:
    """Return the connected workers of each service, with the places that they have shown."""
    running = _RUNNING.replace("{since}", str(since))
    found = select("worker, cast(max(running) as bigint) as n", running, more="group by 1")
    places = {row["worker"]: max(1, row["n"]) for row in found}
    offers: dict[str, dict[str, int]] = {}
    for row in select("worker, services", "sessions", "left_at is null"):
        for name in row["services"].splitlines():
            offers.setdefault(name, {})[row["worker"]] = places.get(row["worker"], 1)
    return offers


def _line(values: Sequence[float], part: float) -> tuple[float, float]:
    """Return the slope of the line of least squares, and its standard error."""
    count = len(values)
    times = [(n - (count - 1) / 2) * part for n in range(count)]
    mean, spread = sum(values) / count, sum(t * t for t in times)
    slope = sum(t * v for t, v in zip(times, values, strict=True)) / spread
    rest = sum((v - mean - slope * t) ** 2 for t, v in zip(times, values, strict=True))
    return slope, math.sqrt(rest / (count - 2) / spread)


def _instant(now: float, ahead: float) -> str:
    at = datetime.fromtimestamp(now + ahead, UTC)
    return f"{at:%d %b %H:%M} (in {charts.span(ahead * 1e6)})"
