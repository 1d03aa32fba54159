"""The report: one HTML file that opens without a network.

Spark aggregates first; at most a few thousand rows reach Python.
"""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline import charts
from dragoman.pipeline.audit import RULES
from dragoman.pipeline.charts import Bar
from dragoman.pipeline.clients import STATES
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import in_order, read_table

#: Most points of a curve, and most rows of a list.
POINTS: Final = 180
ROWS: Final = 40
#: A run up to this long is drawn in seconds, with at most so many points. Longer ones have minutes.
SHORT: Final = 30 * 60
_FINE_POINTS: Final = 60
#: Services of the broker itself; their jobs are questions about the broker.
BUILT_IN: Final = r"(?i)^(mmi|sid|fss)\.|^filesharing$"
_MOST_BARS: Final = 4_000
_AT_ONCE: Final = 3

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class ReportSection:
    """One chart with its title and a line of explanation."""

    title: str
    note: str
    body: str


def build_report(store: TableStore, *, with_builtin: bool = False) -> str:
    """Return the page; on request with the broker's own services and the questions to them."""
    import jinja2

    template = files("dragoman.pipeline").joinpath("report.html").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return page.from_string(template).render(**_Report(store, with_builtin).context())


def _rows(found: DataFrame) -> Rows:
    return found.toArrow().to_pylist()


class _Report:
    """Queries the tables and draws the charts."""

    def __init__(self, store: TableStore, with_builtin: bool = False) -> None:
        self.store = store
        self._with_builtin = with_builtin

    def context(self) -> dict[str, object]:
        found = self._table("audit")
        listed = _rows(in_order(found).limit(ROWS))
        return {
            "seq": self.store.snapshot.seq,
            "first": f"{datetime.fromtimestamp(self.begun, UTC):%Y-%m-%d %H:%M:%S}",
            "last": f"{datetime.fromtimestamp(self.over, UTC):%Y-%m-%d %H:%M:%S}",
            "cards": self._cards(),
            "audit": [self._breach(row) for row in listed],
            "breaches": found.count(),
            "rules": ", ".join(rule.replace("_", " ") for rule in RULES),
            "blocks": self._blocks(),
        }

    def _blocks(self) -> list[ReportSection]:
        wanted = (
            self._traffic,
            self._latency,
            self._hours,
            self._slowest,
            self._bridges,
            self._workers,
            self._bill,
            self._slo,
            self._anomalies,
        )
        # Small queries: while Spark plans one, it can run another.
        with ThreadPoolExecutor(_AT_ONCE, "dragoman-report") as pool:
            return [*pool.map(lambda draw: draw(), wanted)]

    def _table(self, name: str) -> DataFrame:
        found = read_table(self.store, name)
        # A breach counts wherever it is.
        if self._with_builtin or name == "audit":
            return found
        if "service" in found.columns:
            return found.where(~F.coalesce(F.col("service").rlike(BUILT_IN), F.lit(False)))
        local = {"sessions": "dialect", "bridges": "dialect_out"}.get(name)
        return found.where(~F.col(local).eqNullSafe("local")) if local else found

    # --- the period of the report -------------------------------------------------------------

    @cached_property
    def begun(self) -> float:
        found = self._table("service_minutes").agg(F.unix_micros(F.min("minute"))).collect()
        begun = float(found[0][0] or 0) / 1e6
        if self.over - begun > SHORT:
            return begun
        first = self._table("jobs").agg(F.unix_micros(F.min("submitted_at"))).collect()[0][0]
        return begun if first is None else first // 1_000_000

    @cached_property
    def over(self) -> float:
        horizon = self.store.snapshot.horizon
        return horizon.timestamp() if horizon else 0.0

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

    def _bucket(self, instant: str) -> Any:
        since = F.unix_micros(F.col(instant)) - int(self.begun * 1e6)
        return F.floor(since / (self.step * 1_000_000)).cast("bigint").alias("bucket")

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
        sums = [F.sum(name).alias(name) for name in ("submitted", "refused", *STATES)]
        row = _rows(self._table("service_minutes").agg(*sums))[0]
        total = {name: value or 0 for name, value in row.items()}
        ended = sum(total[state] for state in STATES)
        good = total["succeeded"] / ended if ended else 0.0
        workers = self._table("sessions").select("worker").distinct().count()
        bill = self._table("accounting").agg(F.sum("bill")).collect()[0][0] or 0
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
            jobs = self._table("jobs").withColumnRenamed("dialect_in", "dialect")
            grouped = jobs.groupBy(self._bucket("submitted_at"), "dialect")
            found = _rows(grouped.agg(F.count(F.lit(1)).alias("n")))
        else:
            minutes = self._table("service_minutes")
            grouped = minutes.groupBy(self._bucket("minute"), "dialect")
            found = _rows(grouped.agg(F.sum("submitted").alias("n")))
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
        wanted = F.array(*[F.lit(share) for share in shares.values()])
        ended = self._table("jobs").where(F.col("ended_at").isNotNull())
        found = _rows(
            ended.groupBy(self._bucket("ended_at")).agg(F.percentile("total_us", wanted).alias("p"))
        )
        series: dict[str, list[float | None]] = {name: [None] * len(self.times) for name in shares}
        for row in found:
            for name, value in zip(shares, row["p"], strict=True):
                if 0 <= row["bucket"] < len(self.times):
                    series[name][row["bucket"]] = value
        chart = charts.line_chart(self.times, series, "percentiles of job duration")
        note = "From submission to the final state, of the jobs that ended then; logarithmic scale."
        return ReportSection("Job duration", note, charts.legend([*shares]) + chart)

    def _hours(self) -> ReportSection:
        minutes = self._table("service_minutes")
        found = _rows(
            minutes.groupBy("day", F.hour("minute").alias("hour")).agg(F.sum("ended").alias("n"))
        )
        days = [str(day) for day in sorted({row["day"] for row in found})][-ROWS:]
        values = {(str(row["day"]), f"{row['hour']:02d}"): float(row["n"]) for row in found}
        hours = [f"{hour:02d}" for hour in range(24)]
        chart = charts.heat_map(days, hours, values, "jobs ended by day and hour")
        return ReportSection("Hour by hour", "Jobs that ended, by day and hour (UTC).", chart)

    def _slowest(self) -> ReportSection:
        ended = self._table("jobs").where(
            F.col("started_at").isNotNull() & F.col("day").isNotNull()
        )
        shares = F.percentile("run_us", F.array(F.lit(0.5), F.lit(0.99))).alias("p")
        found = _rows(ended.groupBy("service").agg(shares, F.count(F.lit(1)).alias("n")))
        found.sort(key=lambda row: -row["p"][1])
        bars = [
            (
                row["service"],
                row["p"][1],
                f"p99 {charts.span(row['p'][1])} · p50 {charts.span(row['p'][0])} · {row['n']:,}",
            )
            for row in found[:ROWS]
        ]
        chart = charts.bar_chart(bars, "the slowest services", charts.COLOURS[2])
        note = "99th percentile of the run time, with the median and the number of jobs."
        return ReportSection("Slowest services", note, chart)

    def _bridges(self) -> ReportSection:
        found = _rows(
            self._table("bridges")
            .groupBy("dialect_in", "dialect_out")
            .agg(F.sum("jobs").alias("n"))
        )
        rows = sorted({row["dialect_in"] or "?" for row in found})
        columns = sorted({row["dialect_out"] or "no worker" for row in found})
        values = {
            (row["dialect_in"] or "?", row["dialect_out"] or "no worker"): float(row["n"])
            for row in found
        }
        chart = charts.heat_map(rows, columns, values, "jobs from dialect to dialect")
        return ReportSection("Bridges", "From the client's dialect (rows) to the worker's.", chart)

    def _workers(self) -> ReportSection:
        chosen = self._table("sessions").orderBy(F.desc("joined_at")).limit(_MOST_BARS)
        rows: defaultdict[str, list[Bar]] = defaultdict(list)
        for row in _rows(chosen):
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
        found = _rows(
            self._table("accounting")
            .groupBy("principal", "service")
            .agg(F.sum("bill").alias("bill"), F.sum("jobs").alias("jobs"))
            .orderBy(F.desc("bill"), "principal", "service")
            .limit(20)
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
        found = _rows(self._table("slo").orderBy("service", F.desc("day")).limit(1_000))
        newest = {row["service"]: row for row in reversed(found)}
        cells = [
            (
                row["service"],
                f"{row['objective']:.1%}",
                f"{row['window_good']:,}",
                f"{row['window_bad']:,}",
                f"{row['burn_rate']:.2f}",
                _coloured(f"{row['budget_left']:.0%}", row["budget_left"] >= 0),
            )
            for row in sorted(newest.values(), key=lambda row: row["budget_left"])
        ]
        heads = ("service", "objective", "good", "bad", "burn rate today", "budget left")
        note = "A job is good if it succeeded within 60 s. The error budget covers 30 days."
        return ReportSection("Objectives", note, table(heads, cells))

    def _anomalies(self) -> ReportSection:
        worst = self._table("anomalies").orderBy(F.desc(F.abs("score")), "minute", "service")
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
            for row in _rows(worst.limit(15))
        ]
        heads = ("minute", "service", "dialect", "metric", "value", "median of 24 h", "score")
        note = "Minutes with a modified z-score above 8 against the 24 h before."
        body = table(heads, cells) if cells else "<p>None.</p>"
        return ReportSection("Anomalies", note, body)


def _format(metric: str, value: float) -> str:
    return charts.span(value) if metric.endswith("_us") else charts.count(value)


def _coloured(text: str, is_good: bool) -> str:
    return f'<span class="{"good" if is_good else "bad"}">{text}</span>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; cells that begin with our own mark-up are not escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(cell: str) -> str:
    return cell if cell.startswith('<span class="') else escape(cell)
