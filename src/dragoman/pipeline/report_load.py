"""Sections of the report about load: who calls whom, what comes next, what changed.

The forecast is one of persistence: it assumes that jobs go on to arrive and to leave the queue at
the mean rates of the last part of the period. It knows no hours of the day and no new workers.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from dragoman.pipeline import charts, diagrams
from dragoman.pipeline.diagrams import Lane
from dragoman.pipeline.report_parts import (
    ReportSection,
    Select,
    coloured,
    count_if,
    share_of,
    table,
)

#: Most services in a map or list, most bars and workers of a timeline.
_SERVICES: Final = 12
_ROWS: Final = 40
_BARS: Final = 1_200
_WORKERS: Final = 24
#: Seconds that a forecast looks back: a quarter of the period, within these bounds.
_LEAST_BACK: Final = 60.0
_MOST_BACK: Final = 3_600.0


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
        """Whether the two counts differ by no more than chance: two standard deviations."""
        return abs(self.arrived - self.left) <= 2 * math.sqrt(self.arrived + self.left)

    def words(self, now: float) -> str:
        """Say what is to be expected."""
        ahead = self.minutes_to_empty
        if ahead is None:
            more = (self.arrived - self.left) / self.minutes
            return "stays about as it is" if self.is_steady else f"grows by {more:.3g} a minute"
        if not ahead:
            return "is empty"
        at = datetime.fromtimestamp(now + ahead * 60, UTC)
        return f"empties at {at:%d %b %H:%M} (in {charts.span(ahead * 60e6)})"


def look_back(begun: float, over: float) -> float:
    """Return the seconds that a forecast is made from."""
    return min(max((over - begun) / 4, _LEAST_BACK), _MOST_BACK)


def forecast(select: Select, begun: float, over: float) -> ReportSection:
    """Say for each service when its queue empties at the rates of the last part of the period."""
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
    found = [row for row in found if row["waiting"] or row["arrived"] or row["gone"]]
    found.sort(key=lambda row: (-row["waiting"], -row["arrived"], row["service"]))
    cells = []
    for row in found[:_ROWS]:
        ahead = QueueForecast(row["waiting"], row["arrived"], row["gone"], back / 60)
        words = coloured(ahead.words(over), ahead.minutes_to_empty is not None or ahead.is_steady)
        rates = (f"{n / ahead.minutes:.3g}" for n in (ahead.arrived, ahead.left))
        cells.append((row["service"], f"{ahead.waiting:,}", *rates, words))
    heads = ("service", "waiting", "come, per minute", "leave, per minute", "the queue")
    note = (
        f"If jobs go on to come and to leave the queue as in the last {charts.span(back * 1e6)}: "
        "waiting / (leave - come). A difference within two standard deviations counts as none. "
        "Hours of the day and new workers are not considered."
    )
    body = table(heads, cells) if cells else "<p>No job came, left or waits.</p>"
    return ReportSection("Forecast", note, body)


def comparison(
    select: Select, begun: float, over: float, hours: float | None = None
) -> ReportSection:
    """Compare the newest part of the period with the equally long part before it."""
    size = hours * 3600 if hours else max((over - begun) / 2, 1.0)
    middle, first = int((over - size) * 1e6), int((over - 2 * size) * 1e6)
    found = select(
        f"service, case when unix_micros(ended_at) >= {middle} then 'now' else 'before' end as part"
        f", count(*) as jobs, {count_if(_BAD, 'bad')}, {share_of('total_us', 0.5)} as p50, "
        f"{share_of('total_us', 0.99)} as p99",
        "jobs",
        f"ended_at is not null and unix_micros(ended_at) >= {first}",
        "group by 1, 2",
    )
    parts = {(row["service"], row["part"]): row for row in found}
    services = sorted({row["service"] for row in found})
    services.sort(key=lambda name: -sum(r["jobs"] for r in found if r["service"] == name))
    cells = [
        _compared(name, parts.get((name, "before"), _NONE), parts.get((name, "now"), _NONE))
        for name in services[:_ROWS]
    ]
    heads = ("service", "jobs", "not succeeded", "median duration", "99th percentile")
    note = (
        f"The last {charts.span(size * 1e6)} against the equally long time before, "
        "by the end of each job."
    )
    return ReportSection("Then and now", note, table(heads, cells))


_BAD: Final = "state in ('failed', 'expired', 'dead')"
_NONE: Final = {"jobs": 0, "bad": 0, "p50": None, "p99": None}


def _compared(name: str, old: dict[str, int | None], new: dict[str, int | None]) -> tuple[str, ...]:
    share_old, share_new = (float(p["bad"] or 0) / (p["jobs"] or 1) for p in (old, new))
    bad = f"{share_old:.1%} \u2192 {share_new:.1%}"
    return (
        name,
        f"{old['jobs']:,} \u2192 {new['jobs']:,}{_change(old['jobs'], new['jobs'])}",
        coloured(bad, share_new <= share_old) if share_new != share_old else bad,
        *(f"{_span(old[p])} \u2192 {_span(new[p])}{_change(old[p], new[p])}" for p in _SHARES),
    )


_SHARES: Final = ("p50", "p99")


def _span(micros: float | None) -> str:
    return "none" if micros is None else charts.span(micros)


def _change(old: float | None, new: float | None) -> str:
    """Return by how much a number changed; nothing if there is no number to compare with."""
    return f" ({(new - old) / old:+.0%})" if old and new is not None else ""


def service_map(select: Select) -> ReportSection:
    """Draw how many jobs go from which dialect to which service, and on to which dialect."""
    found = select(
        "dialect_in, service, dialect_out, count(*) as n", "jobs", more="group by 1, 2, 3"
    )
    totals: dict[str, int] = {}
    for row in found:
        totals[row["service"]] = totals.get(row["service"], 0) + row["n"]
    kept = sorted(totals, key=lambda name: (-totals[name], name))[:_SERVICES]
    flows: dict[tuple[str, str, str], float] = {}
    for row in found:
        service = row["service"] if row["service"] in kept else "other services"
        way = (row["dialect_in"] or "?", service, row["dialect_out"] or "no worker")
        flows[way] = flows.get(way, 0) + row["n"]
    chart = diagrams.flow_chart(flows, "jobs from client dialects over services to workers")
    note = "Jobs from the clients' dialects (left) over the services to the workers' dialects."
    return ReportSection("Who calls whom", note, chart)


def worker_lanes(select: Select, over: float) -> ReportSection:
    """Draw the newest assignments of each worker, side by side where they ran at one time."""
    found = select(
        "worker, service, job, outcome, unix_micros(dispatched_at) as begun, "
        "unix_micros(ended_at) as ended",
        "assignments",
        more=f"order by dispatched_seq desc, part limit {_BARS}",
    )
    services = sorted({row["service"] for row in found})
    lanes: dict[str, list[Lane]] = {}
    for row in reversed(found):
        end = row["ended"] / 1e6 if row["ended"] is not None else over
        begun = row["begun"] / 1e6
        tip = (
            f"{row['job']}: {row['service']}, {row['outcome']}, {charts.span((end - begun) * 1e6)}"
        )
        colour = charts.COLOURS[services.index(row["service"]) % len(charts.COLOURS)]
        lanes.setdefault(row["worker"], []).append(Lane(begun, end, colour, tip))
    shown = {name: lanes[name] for name in sorted(lanes)[:_WORKERS]}
    if not shown:
        return ReportSection("Workers at work", "The newest assignments.", "<p>None.</p>")
    chart = diagrams.lane_chart(shown, "what each worker ran, and when")
    more = f" The first {_WORKERS} of {len(lanes)} workers." if len(lanes) > _WORKERS else ""
    note = f"The newest {len(found):,} assignments; one above the other ran at one time.{more}"
    return ReportSection("Workers at work", note, charts.legend(services) + chart)
