"""The report: one HTML file that opens without a network.

The engine of the tables aggregates first; at most a few thousand rows reach Python.
"""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from typing import Any, Final

from dragoman.pipeline import charts
from dragoman.pipeline.audit import RULES
from dragoman.pipeline.charts import Bar
from dragoman.pipeline.clients import STATES
from dragoman.pipeline.forecast import ServiceForecast, service_forecasts
from dragoman.pipeline.queries import AUDIT, Rows, TableQueries
from dragoman.pipeline.report_load import (
    capacity,
    comparison,
    forecast,
    service_map,
    worker_lanes,
)
from dragoman.pipeline.report_parts import ReportSection, coloured, share_of, sum_of, table

#: Most points of a curve, and most rows of a list.
POINTS: Final = 180
ROWS: Final = 40
#: A run up to this long is drawn in seconds, with at most so many points. Longer ones have minutes.
SHORT: Final = 30 * 60
_FINE_POINTS: Final = 60
#: Services of the broker itself; their jobs are questions about the broker.
BUILT_IN: Final = "(?i)^(mmi|sid|fss)[.]|^filesharing$"
_MOST_BARS: Final = 4_000
_AT_ONCE: Final = 3


def build_report(
    store: TableQueries, *, with_builtin: bool = False, compare_hours: float | None = None
) -> str:
    """Return the page.

    Args:
        store: The tables.
        with_builtin: Also the broker's own services and the questions to them.
        compare_hours: Compare so many hours with those before; by default halves of the period.

    """
    import jinja2

    template = files("dragoman.pipeline").joinpath("report.html").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return page.from_string(template).render(
        **_Report(store, with_builtin, compare_hours).context()
    )


def build_forecasts(
    store: TableQueries, *, with_builtin: bool = False
) -> tuple[list[ServiceForecast], float]:
    """Return what the report expects of each service, and the instant of the newest record."""
    report = _Report(store, with_builtin)
    return report.forecasts, report.over


class _Report:
    """Queries the tables and draws the charts."""

    def __init__(
        self, store: TableQueries, with_builtin: bool = False, compare_hours: float | None = None
    ) -> None:
        self.store = store
        self._with_builtin = with_builtin
        self._hours_compared = compare_hours

    def context(self) -> dict[str, object]:
        listed = self.store.rows(f"{AUDIT} limit {ROWS}")
        (breaches,) = self.store.rows("select count(*) as n from audit")
        return {
            "seq": self.store.snapshot.seq,
            "first": f"{datetime.fromtimestamp(self.begun, UTC):%Y-%m-%d %H:%M:%S}",
            "last": f"{datetime.fromtimestamp(self.over, UTC):%Y-%m-%d %H:%M:%S}",
            "cards": self._cards(),
            "audit": [self._breach(row) for row in listed],
            "breaches": breaches["n"],
            "rules": ", ".join(rule.replace("_", " ") for rule in RULES),
            "blocks": self._blocks(),
        }

    def _blocks(self) -> list[ReportSection]:
        wanted = (
            self._traffic,
            self._latency,
            self._hours,
            self._slowest,
            lambda: service_map(self._rows),
            self._bridges,
            self._workers,
            lambda: worker_lanes(self._rows, self.over),
            lambda: forecast(self.forecasts, self.over),
            lambda: capacity(self.forecasts, self.over),
            lambda: comparison(self._rows, self.begun, self.over, self._hours_compared),
            self._bill,
            self._slo,
            self._anomalies,
        )
        # Small queries: while Spark plans one, it can run another.
        with ThreadPoolExecutor(_AT_ONCE, "dragoman-report") as pool:
            return [*pool.map(lambda draw: draw(), wanted)]

    def _from(self, name: str, where: str = "true") -> str:
        """Return the `from` of a query of a table."""
        return f"from {name} where {where} and {self._wanted(name)}"

    def _wanted(self, name: str) -> str:
        """Return the condition that leaves out the broker's own services."""
        if self._with_builtin:
            return "true"
        local = {"sessions": "dialect", "bridges": "dialect_out"}.get(name)
        if local:
            return f"coalesce({local}, '') <> 'local'"
        return f"not coalesce(regexp_like(service, '{BUILT_IN}'), false)"

    def _rows(self, select: str, name: str, where: str = "true", more: str = "") -> Rows:
        return self.store.rows(f"select {select} {self._from(name, where)} {more}")

    # --- the period of the report -------------------------------------------------------------

    @cached_property
    def begun(self) -> float:
        (found,) = self._rows("unix_micros(min(minute)) as us", "service_minutes")
        begun = float(found["us"] or 0) / 1e6
        if self.over - begun > SHORT:
            return begun
        (found,) = self._rows("unix_micros(min(submitted_at)) as us", "jobs")
        return begun if found["us"] is None else found["us"] // 1_000_000

    @cached_property
    def over(self) -> float:
        horizon = self.store.snapshot.horizon
        return horizon.timestamp() if horizon else 0.0

    @cached_property
    def forecasts(self) -> list[ServiceForecast]:
        """What is to be expected of each service, for two sections."""
        return service_forecasts(self._rows, self.begun, self.over)

    @cached_property
    def step(self) -> int:
        """Seconds between two points of a curve: in whole minutes, but for a short run."""
        if self.over - self.begun <= SHORT:
            return max(1, -(-int(self.over - self.begun) // _FINE_POINTS))
        return max(60, -(-int(self.over - self.begun) // POINTS // 60) * 60)

    @cached_property
    def times(self) -> list[float]:
        """The points of every curve."""
        # At least two: one point makes no line and no area.
        count = max(int((self.over - self.begun) // self.step) + 1, 2)
        return [self.begun + n * self.step for n in range(count)]

    def _minutes(self, bucket: int) -> float:
        """Return the minutes that a point covers; the last may be incomplete."""
        begun = self.begun + bucket * self.step
        return max(min(self.step, 60), min(self.step, self.over - begun)) / 60

    def _bucket(self, instant: str) -> str:
        since = f"(unix_micros({instant}) - {int(self.begun * 1e6)})"
        return f"cast(floor({since} / {self.step * 1_000_000}) as bigint)"

    def _breach(self, row: dict[str, Any]) -> dict[str, str]:
        at = f"{row['at']:%d %b %H:%M:%S}" if row["at"] else ""
        return {
            "rule": row["rule"].replace("_", " "),
            "at": at,
            "job": row["job"],
            "words": row["words"],
            "proof": ", ".join(map(str, row["seqs"])),
        }

    def _cards(self) -> list[tuple[str, str]]:
        sums = ", ".join(sum_of(name) for name in ("submitted", "refused", *STATES))
        (row,) = self._rows(sums, "service_minutes")
        total = {name: value or 0 for name, value in row.items()}
        ended = sum(total[state] for state in STATES)
        good = total["succeeded"] / ended if ended else 0.0
        workers = self._rows("count(distinct worker) as n", "sessions")[0]["n"]
        bill = self._rows(sum_of("bill"), "accounting")[0]["bill"] or 0
        return [
            ("jobs submitted", f"{total['submitted']:,}"),
            ("succeeded", f"{good:.2%}"),
            ("failed, expired or dead", f"{total['failed'] + total['expired'] + total['dead']:,}"),
            ("submissions refused", f"{total['refused']:,}"),
            ("workers", f"{workers:,}"),
            ("credits used", f"{bill / 1e6:,.2f}"),
        ]

    # --- charts -------------------------------------------------------------------------------

    def _traffic(self) -> ReportSection:
        if self.step < 60:
            wanted = f"{self._bucket('submitted_at')} as bucket, dialect_in as dialect"
            found = self._rows(f"{wanted}, count(*) as n", "jobs", more="group by 1, 2")
        else:
            wanted = f"{self._bucket('minute')} as bucket, dialect"
            found = self._rows(
                f"{wanted}, {sum_of('submitted', 'n')}", "service_minutes", more="group by 1, 2"
            )
        found = [row for row in found if 0 <= row["bucket"] < len(self.times)]
        known = sorted({row["dialect"] for row in found})
        series = {name: [0.0] * len(self.times) for name in known}
        for row in found:
            series[row["dialect"]][row["bucket"]] += row["n"] / self._minutes(row["bucket"])
        chart = charts.area_chart(self.times, series, "jobs per minute by client dialect")
        note = "Jobs submitted per minute, by the dialect of the client."
        return ReportSection("Traffic", note, charts.legend(known) + chart)

    def _latency(self) -> ReportSection:
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
        names = {name: f"p{number}" for number, name in enumerate(shares)}
        wanted = ", ".join(f"{share_of('total_us', p)} as {names[n]}" for n, p in shares.items())
        found = self._rows(
            f"{self._bucket('ended_at')} as bucket, {wanted}",
            "jobs",
            "ended_at is not null",
            "group by 1",
        )
        series: dict[str, list[float | None]] = {name: [None] * len(self.times) for name in shares}
        for row in found:
            for name in shares:
                if 0 <= row["bucket"] < len(self.times):
                    series[name][row["bucket"]] = row[names[name]]
        chart = charts.line_chart(self.times, series, "percentiles of job duration")
        note = "From submission to the final state, of the jobs that ended then; logarithmic scale."
        return ReportSection("Job duration", note, charts.legend([*shares]) + chart)

    def _hours(self) -> ReportSection:
        found = self._rows(
            f"day, hour(minute) as hour, {sum_of('ended', 'n')}",
            "service_minutes",
            more="group by 1, 2",
        )
        days = [str(day) for day in sorted({row["day"] for row in found})][-ROWS:]
        values = {(str(row["day"]), f"{row['hour']:02d}"): float(row["n"]) for row in found}
        hours = [f"{hour:02d}" for hour in range(24)]
        chart = charts.heat_map(days, hours, values, "jobs ended by day and hour")
        return ReportSection("Hour by hour", "Jobs that ended, by day and hour (UTC).", chart)

    def _slowest(self) -> ReportSection:
        found = self._rows(
            f"service, {share_of('run_us', 0.5)} as p50, {share_of('run_us', 0.99)} as p99, "
            "count(*) as n",
            "jobs",
            "started_at is not null and day is not null",
            "group by 1",
        )
        found.sort(key=lambda row: (-row["p99"], row["service"]))
        bars = [
            (
                row["service"],
                row["p99"],
                f"p99 {charts.span(row['p99'])} · p50 {charts.span(row['p50'])} · {row['n']:,}",
            )
            for row in found[:ROWS]
        ]
        chart = charts.bar_chart(bars, "the slowest services", charts.COLOURS[2])
        note = "99th percentile of the run time, with the median and the number of jobs."
        return ReportSection("Slowest services", note, chart)

    def _bridges(self) -> ReportSection:
        wanted = f"dialect_in, dialect_out, {sum_of('jobs', 'n')}"
        found = self._rows(wanted, "bridges", more="group by 1, 2")
        rows = sorted({row["dialect_in"] or "?" for row in found})
        columns = sorted({row["dialect_out"] or "no worker" for row in found})
        values = {
            (row["dialect_in"] or "?", row["dialect_out"] or "no worker"): float(row["n"])
            for row in found
        }
        chart = charts.heat_map(rows, columns, values, "jobs from dialect to dialect")
        return ReportSection("Bridges", "From the client's dialect (rows) to the worker's.", chart)

    def _workers(self) -> ReportSection:
        newest = f"order by joined_at desc, peer limit {_MOST_BARS}"
        rows: defaultdict[str, list[Bar]] = defaultdict(list)
        for row in self._rows("*", "sessions", more=newest):
            start = row["joined_at"].timestamp()
            end = row["left_at"].timestamp() if row["left_at"] else self.over
            share = row["busy_share"] or 0.0
            why = f"; {row['why']}" if row["why"] else ""
            tip = f"{row['worker']}: busy {share:.0%}, {row['assignments']:,} assignments{why}"
            rows[row["worker"]].append(Bar(start, end, share, tip))
        shown = {name: rows[name] for name in sorted(rows)[:ROWS]}
        chart = charts.timeline(shown, "sessions of the workers")
        more = f" The first {ROWS} of {len(rows)}." if len(rows) > ROWS else ""
        note = f"Sessions; the darker, the busier.{more}"
        return ReportSection("Workers", note, chart)

    def _bill(self) -> ReportSection:
        found = self._rows(
            f"principal, service, {sum_of('bill')}, {sum_of('jobs')}",
            "accounting",
            more="group by 1, 2 order by 3 desc, 1, 2 limit 20",
        )
        bars = [
            (
                f"{row['principal']} · {row['service']}",
                row["bill"] / 1e6,
                f"{row['bill'] / 1e6:,.2f} credits · {row['jobs']:,} jobs",
            )
            for row in found
        ]
        chart = charts.bar_chart(bars, "bill by principal and service", charts.COLOURS[3])
        return ReportSection("Bill", "Credits by principal and service, the twenty largest.", chart)

    def _slo(self) -> ReportSection:
        found = self._rows("*", "slo", more="order by service, day desc limit 1000")
        newest = {row["service"]: row for row in reversed(found)}
        cells = [
            (
                row["service"],
                f"{row['objective']:.1%}",
                f"{row['window_good']:,}",
                f"{row['window_bad']:,}",
                f"{row['burn_rate']:.2f}",
                coloured(f"{row['budget_left']:.0%}", row["budget_left"] >= 0),
            )
            for row in sorted(newest.values(), key=lambda row: row["budget_left"])
        ]
        heads = ("service", "objective", "good", "bad", "burn rate today", "budget left")
        note = "A job is good if it succeeded within 60 s. The error budget covers 30 days."
        return ReportSection("Objectives", note, table(heads, cells))

    def _anomalies(self) -> ReportSection:
        worst = "order by abs(score) desc, minute, service limit 15"
        cells = [
            (
                f"{row['minute']:%d %b %H:%M}",
                row["service"],
                row["dialect"],
                row["metric"].removesuffix("_us").replace("_", " "),
                _format(row["metric"], row["value"]),
                _format(row["metric"], row["median"]),
                f"{row['score']:+.0f}",
            )
            for row in self._rows("*", "anomalies", more=worst)
        ]
        heads = ("minute", "service", "dialect", "metric", "value", "median of 24 h", "score")
        note = "Minutes with a modified z-score above 8 against the 24 h before."
        body = table(heads, cells) if cells else "<p>None.</p>"
        return ReportSection("Anomalies", note, body)


def _format(metric: str, value: float) -> str:
    return charts.span(value) if metric.endswith("_us") else charts.count(value)
