"""What each session did on each UTC day: the ground of `sessions` and `worker_days`.

Days are written anew from the first one that the new records touch; what lies before that day
is cut off. A session is busy while it has at least one assignment: overlaps count once.
"""

from datetime import date, datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.schema import columns, day_of, shaped, span_us
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
    assignments: DataFrame, stays: DataFrame, since: date, horizon: datetime
) -> DataFrame:
    """Sum up days from `since` on.

    Args:
        assignments: All that ended on or after `since`, or have not ended.
        stays: The same of sessions.
        since: The first day wanted.
        horizon: Where spans that are still open are cut off.

    """
    work = assignments.withColumn("session", F.coalesce("session", F.lit(0)))
    pieces = [
        _stayed(stays, since, horizon),
        _busy(work, stays, since, horizon),
        _given(work),
        _done(work),
    ]
    rows = reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), pieces)
    slowest = F.struct(F.col("slowest_us"), F.col("slowest_job"))
    summed = (
        rows.where(F.col("day") >= F.lit(since))
        .groupBy(*KEY, "day")
        .agg(
            F.max("worker").alias("worker"),
            *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS],
            F.max(F.when(F.col("slowest_us").isNotNull(), slowest)).alias("slowest"),
        )
    )
    return shaped(summed.select("*", "slowest.*").drop("slowest"), SCHEMA)


def each_day(start: Column, end: Column, since: date) -> Column:
    """Return every day that a span touches, from `since` on."""
    first = F.greatest(day_of(start), F.lit(since))
    return F.when(day_of(end) >= first, F.sequence(first, day_of(end)))


def _clipped(rows: DataFrame, since: date) -> DataFrame:
    """Cut `start` to `end` at midnights: one row for each day."""
    rows = rows.withColumn("day", F.explode(each_day(F.col("start"), F.col("end"), since)))
    midnight = F.col("day").cast("timestamp")
    next_midnight = F.date_add("day", 1).cast("timestamp")
    return rows.withColumns(
        {"start": F.greatest("start", midnight), "end": F.least("end", next_midnight)}
    )


def _stayed(stays: DataFrame, since: date, horizon: datetime) -> DataFrame:
    until = F.coalesce(F.col("left_at"), F.lit(horizon))
    rows = stays.select(*KEY, "worker", F.col("joined_at").alias("start"), until.alias("end"))
    connected = _clipped(rows, since).select(
        *KEY, "worker", "day", span_us(F.col("start"), F.col("end")).alias("connected_us")
    )
    joins = stays.select(
        *KEY, "worker", day_of(F.col("joined_at")).alias("day"), F.lit(1).alias("joins")
    )
    gone = stays.where(F.col("left_at").isNotNull())
    leaves = gone.select(
        *KEY, "worker", day_of(F.col("left_at")).alias("day"), F.lit(1).alias("leaves")
    )
    both = connected.unionByName(joins, allowMissingColumns=True)
    return both.unionByName(leaves, allowMissingColumns=True)


def _busy(work: DataFrame, stays: DataFrame, since: date, horizon: datetime) -> DataFrame:
    """Measure the union of each session's assignments, within the session."""
    limits = stays.select(*KEY, "joined_at", F.col("left_at").alias("stay_end"))
    rows = work.join(F.broadcast(limits), KEY, "left")
    # A session that is not among the stays was over before `since`.
    rows = rows.where((F.col("session") == 0) | F.col("joined_at").isNotNull())
    end = F.least(F.coalesce("ended_at", F.lit(horizon)), F.coalesce("stay_end", F.lit(horizon)))
    rows = rows.select(*KEY, "worker", F.col("dispatched_at").alias("start"), end.alias("end"))
    rows = _clipped(rows.where(F.col("end") > F.col("start")), since)
    earlier = Window.partitionBy(*KEY, "day").orderBy("start", "end")
    earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
    covered = F.coalesce(F.max("end").over(earlier), F.col("start"))
    rows = rows.withColumn("from", F.greatest("start", covered))
    fresh = F.greatest(F.lit(0), span_us(F.col("from"), F.col("end")))
    return rows.select(*KEY, "worker", "day", fresh.alias("busy_us"))


def _given(work: DataFrame) -> DataFrame:
    day = day_of(F.col("dispatched_at")).alias("day")
    return work.select(*KEY, "worker", day, F.lit(1).alias("dispatched"))


def _done(work: DataFrame) -> DataFrame:
    rows = work.where(F.col("ended_at").isNotNull())
    return rows.select(
        *KEY,
        "worker",
        day_of(F.col("ended_at")).alias("day"),
        F.lit(1).alias("ended"),
        F.col("outcome").isin("failed", "dead", "expired").cast("bigint").alias("failed"),
        (F.col("fault") == "worker_lost").cast("bigint").alias("lost"),
        "run_us",
        F.col("run_us").alias("slowest_us"),
        F.col("job").alias("slowest_job"),
    )
