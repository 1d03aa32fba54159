"""Sections of the report about load: who calls whom, what comes next, what changed."""

from collections.abc import Sequence
from typing import Final

from dragoman.pipeline import charts, diagrams
from dragoman.pipeline.diagrams import Lane
from dragoman.pipeline.forecast import ServiceForecast
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


def forecast(found: Sequence[ServiceForecast], over: float) -> ReportSection:
    """Say for each service when its queue empties at the rates of the last part of the period."""
    cells = []
    for one in [each for each in found if each.queue.is_used][:_ROWS]:
        queue = one.queue
        rates = (f"{n / queue.minutes:.3g}" for n in (queue.arrived, queue.left))
        words = coloured(queue.words(over), queue.is_good)
        cells.append((one.service, f"{queue.waiting:,}", *rates, words))
    if not cells:
        return ReportSection("Forecast", "When queues empty.", "<p>No job came, left or waits.</p>")
    back = charts.span(found[0].queue.minutes * 60e6)
    note = (
        f"If jobs go on to come and to leave the queue as in the last {back}: "
        "waiting / (leave - come). A difference within two standard deviations counts as none. "
        "Hours of the day and new workers are not considered."
    )
    heads = ("service", "waiting", "come, per minute", "leave, per minute", "the queue")
    return ReportSection("Forecast", note, table(heads, cells))


def capacity(found: Sequence[ServiceForecast], over: float) -> ReportSection:
    """Say for each service when its load reaches the places of its workers."""
    busy = [one for one in found if one.load.level]
    busy.sort(key=lambda one: (-one.load.level / (one.load.places or 0.5), one.service))
    cells = [
        (
            one.service,
            charts.span(one.load.work * 1e6),
            f"{one.load.level:.3g}",
            f"{one.load.workers:,}",
            f"{one.load.places:,}",
            coloured(one.load.words(over), one.load.is_good),
        )
        for one in busy[:_ROWS]
    ]
    if not cells:
        return ReportSection("Capacity", "Load against workers.", "<p>No job ended.</p>")
    load = found[0].load
    note = (
        "Load: jobs that come per second x seconds of work of a job. Places: for each connected "
        "worker, the most jobs it ran at one time. The line of least squares through "
        f"{len(load.arrived)} parts of {charts.span(load.part * 1e6)} is continued; a slope within "
        "two standard errors counts as none."
    )
    heads = ("service", "work of a job", "load", "workers", "places", "the load")
    return ReportSection("Capacity", note, table(heads, cells))


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
