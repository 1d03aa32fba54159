"""The work of each session by UTC day: the input of `sessions` and `worker_days`.

A step rewrites the days from the first one that its records touch. Intervals are cut at that day.
A session is busy while it has at least one assignment; overlaps count once.
"""

from datetime import date, datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns, day_of, span_us
from dragoman.pipeline.sessions import KEY

TABLE: Final = "session_days"
SCHEMA: Final = columns("""
    peer string
    session bigint
    worker string
    connected_us bigint
    busy_us bigint
    dispatched bigint
    ended bigint
    failed bigint
    lost bigint
    run_us bigint
    slowest_us bigint
    slowest_job string
    joins bigint
    leaves bigint
    day date
""")
_SUMS: Final = (
    "connected_us",
    "busy_us",
    "dispatched",
    "ended",
    "failed",
    "lost",
    "run_us",
    "joins",
    "leaves",
)


def session_days(
    assignments: DataFrame, base: DataFrame, since: date, horizon: datetime
) -> DataFrame:
    """Sum the days from `since` on.

    Args:
        assignments: All that ended on or after `since`, or are open.
        base: The base sessions, likewise.
        since: The first day.
        horizon: The end of intervals that are still open.

    """
    work = assignments.withColumn("session", F.coalesce("session", F.lit(0)))
    worked = _work_days(work, base, since, horizon)
    rows = _connected_days(base, since, horizon).unionByName(worked, allowMissingColumns=True)
    slowest = F.struct(F.col("slowest_us"), F.col("slowest_job"))
    summed = rows.groupBy(*KEY, "day").agg(
        F.max("worker").alias("worker"),
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS],
        F.max(F.when(F.col("slowest_us").isNotNull(), slowest)).alias("slowest"),
    )
    return cast_to(summed.select("*", "slowest.*").drop("slowest"), SCHEMA)


def each_day(start: Column, end: Column, since: date) -> Column:
    """Return the days of an interval, from `since` on."""
    first = F.greatest(day_of(start), F.lit(since))
    return F.when(day_of(end) >= first, F.sequence(first, day_of(end)))


def _within_day(start: Column, end: Column) -> tuple[Column, Column]:
    """Cut an interval at the midnights around `day`; outside of that day it is empty."""
    begin = F.greatest(start, F.col("day").cast("timestamp"))
    over = F.least(end, F.date_add("day", 1).cast("timestamp"))
    return begin, F.greatest(begin, over)


def _is_on(instant: str) -> Column:
    """Whether an instant is on the day of the row, as 1 or 0."""
    return F.coalesce(day_of(F.col(instant)) == F.col("day"), F.lit(False)).cast("bigint")


def _connected_days(base: DataFrame, since: date, horizon: datetime) -> DataFrame:
    """Return for each day of a session its connected time, and whether it began or ended then."""
    until = F.coalesce(F.col("left_at"), F.lit(horizon))
    days = each_day(F.col("joined_at"), until, since)
    rows = base.select(*KEY, "worker", "joined_at", "left_at", F.explode(days).alias("day"))
    return rows.select(
        *KEY,
        "worker",
        "day",
        span_us(*_within_day(F.col("joined_at"), until)).alias("connected_us"),
        _is_on("joined_at").alias("joins"),
        _is_on("left_at").alias("leaves"),
    )


def _work_days(work: DataFrame, base: DataFrame, since: date, horizon: datetime) -> DataFrame:
    """Return for each day of an assignment what it adds to its session's day."""
    rows = _each_day_of_work(work, base, since, horizon)
    begin, over = _within_day(F.col("dispatched_at"), F.col("busy_until"))
    rows = rows.withColumns({"start": begin, "end": over})
    earlier = Window.partitionBy(*KEY, "day").orderBy("start", "end")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    covered = F.coalesce(F.max("end").over(earlier), F.col("start"))
    added = F.greatest(F.lit(0), span_us(F.greatest("start", covered), F.col("end")))
    rows = rows.withColumns(
        {"busy_us": added, "dispatched": _is_on("dispatched_at"), "ended": _is_on("ended_at")}
    )
    ended_here = F.col("ended") == 1
    failed = F.col("has_failed").cast("bigint")
    lost = F.col("is_lost").cast("bigint")
    counts = (F.col("busy_us") > 0) | (F.col("dispatched") == 1) | ended_here
    return rows.where(counts).select(
        *(*KEY, "worker", "day", "busy_us", "dispatched", "ended"),
        F.when(ended_here, failed).alias("failed"),
        F.when(ended_here, lost).alias("lost"),
        F.when(ended_here, F.col("run_us")).alias("run_us"),
        F.when(ended_here, F.col("run_us")).alias("slowest_us"),
        F.when(ended_here, F.col("job")).alias("slowest_job"),
    )


def _each_day_of_work(
    work: DataFrame, base: DataFrame, since: date, horizon: datetime
) -> DataFrame:
    """Return one row per assignment and day; it is busy until the assignment or session ends."""
    limits = base.select(*KEY, "joined_at", F.col("left_at").alias("session_end"))
    until = F.coalesce(F.col("ended_at"), F.lit(horizon))
    in_session = F.least(until, F.coalesce("session_end", F.lit(horizon)))
    # A session that is not in `base` ended before `since`.
    is_known = (F.col("session") == 0) | F.col("joined_at").isNotNull()
    return work.join(F.broadcast(limits), KEY, "left").select(
        *(*KEY, "worker", "job", "dispatched_at", "ended_at", "run_us"),
        F.when(is_known, in_session).otherwise(F.col("dispatched_at")).alias("busy_until"),
        F.col("outcome").isin("failed", "dead", "expired").alias("has_failed"),
        (F.col("fault") == "worker_lost").alias("is_lost"),
        F.explode(each_day(F.col("dispatched_at"), until, since)).alias("day"),
    )
