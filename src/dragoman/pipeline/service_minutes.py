"""Gold `service_minutes`: each service, asked in each dialect, minute by minute.

Jobs count in the minute they ended in, submissions and refusals in the minute they came in.
Percentiles are exact, over the jobs that ended in the minute. `backlog` is how many jobs waited
for their first worker when the minute was over, `running` how many assignments were under way.
A minute in which nothing happened has no row.
"""

from datetime import datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.clients import STATES
from dragoman.pipeline.schema import columns, day_of, shaped

TABLE: Final = "service_minutes"
SCHEMA: Final = columns("""
    service string
    dialect string
    minute timestamp
    submitted bigint
    refused bigint
    ended bigint
    succeeded bigint
    failed bigint
    expired bigint
    cancelled bigint
    dead bigint
    faults counts
    queue_p50_us bigint
    queue_p90_us bigint
    queue_p99_us bigint
    queue_p999_us bigint
    run_p50_us bigint
    run_p90_us bigint
    run_p99_us bigint
    run_p999_us bigint
    backlog bigint
    running bigint
    day date
""")
SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
_KEY: Final = ("service", "dialect", "minute")


def service_minutes(
    jobs: DataFrame, assignments: DataFrame, refusals: DataFrame, since: datetime
) -> DataFrame:
    """Sum up minutes from `since` on.

    Args:
        jobs: All that ended at or after `since`, or have not ended.
        assignments: The same of assignments.
        refusals: The `refused` records since then.
        since: The first minute wanted.

    """
    jobs = jobs.withColumn("dialect", F.col("dialect_in"))
    rows = _changes(jobs, assignments, since)
    rows = rows.join(_ended(jobs, since), [*_KEY], "full")
    rows = rows.join(_asked(jobs, refusals, since), [*_KEY], "full")
    rows = rows.join(_faults(jobs, refusals, since), [*_KEY], "left")
    so_far = Window.partitionBy("service", "dialect").orderBy("minute")
    levels = {n: F.sum(F.coalesce(n, F.lit(0))).over(so_far) for n in ("backlog", "running")}
    counts = ("submitted", "refused", "ended", *STATES)
    none = F.create_map().cast("map<string,bigint>")
    rows = rows.withColumns({**levels, **{n: F.coalesce(n, F.lit(0)) for n in counts}})
    rows = rows.withColumns({"faults": F.coalesce("faults", none), "day": day_of(F.col("minute"))})
    return shaped(rows.where(F.col("minute") >= F.lit(since)), SCHEMA)


def minute_of(instant: Column) -> Column:
    """Return the minute an instant is in."""
    return F.date_trunc("minute", instant)


def _in_minutes(rows: DataFrame, instant: str, since: datetime) -> DataFrame:
    return rows.withColumn("minute", minute_of(F.col(instant))).where(
        F.col("minute") >= F.lit(since)
    )


def _ended(jobs: DataFrame, since: datetime) -> DataFrame:
    wanted = F.array(*[F.lit(share) for share in SHARES.values()])
    summed = (
        _in_minutes(jobs, "ended_at", since)
        .groupBy(*_KEY)
        .agg(
            F.count(F.lit(1)).alias("ended"),
            *[F.count_if(F.col("state") == state).alias(state) for state in STATES],
            F.percentile("queue_us", wanted).alias("queue"),
            F.percentile("run_us", wanted).alias("run"),
        )
    )
    shares = {
        f"{what}_{name}_us": F.round(F.col(what)[i])
        for what in ("queue", "run")
        for i, name in enumerate(SHARES)
    }
    return summed.withColumns(shares).drop("queue", "run")


def _asked(jobs: DataFrame, refusals: DataFrame, since: datetime) -> DataFrame:
    taken = _in_minutes(jobs, "submitted_at", since).select(*_KEY, F.lit(1).alias("taken"))
    turned = _in_minutes(refusals, "at", since).select(*_KEY, F.lit(0).alias("taken"))
    asked = taken.unionByName(turned).groupBy(*_KEY)
    return asked.agg(
        F.count_if(F.col("taken") == 1).alias("submitted"),
        F.count_if(F.col("taken") == 0).alias("refused"),
    )


def _faults(jobs: DataFrame, refusals: DataFrame, since: datetime) -> DataFrame:
    """Count what went wrong in each minute, by name, in the order of the names."""
    of_jobs = _in_minutes(jobs, "ended_at", since).select(*_KEY, "fault")
    rows = of_jobs.unionByName(_in_minutes(refusals, "at", since).select(*_KEY, "fault"))
    counted = rows.where(F.col("fault") != "").groupBy(*_KEY, "fault").count()
    pairs = F.sort_array(F.collect_list(F.struct("fault", "count")))
    return counted.groupBy(*_KEY).agg(F.map_from_entries(pairs).alias("faults"))


def _changes(jobs: DataFrame, assignments: DataFrame, since: datetime) -> DataFrame:
    """Return by how much the number that wait and run changed in each minute."""
    left_queue = F.coalesce("started_at", "ended_at")
    works = assignments.withColumn("dialect", F.col("dialect_in"))
    steps = [
        _step(jobs, F.col("submitted_at"), "backlog", 1, since),
        _step(jobs, left_queue, "backlog", -1, since),
        _step(works, F.col("dispatched_at"), "running", 1, since),
        _step(works, F.col("ended_at"), "running", -1, since),
    ]
    rows = reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), steps)
    return rows.groupBy(*_KEY).agg(
        F.sum("backlog").alias("backlog"), F.sum("running").alias("running")
    )


def _step(rows: DataFrame, instant: Column, name: str, by: int, since: datetime) -> DataFrame:
    """Move a level by one at an instant; what was before `since` is where it starts from."""
    start = F.lit(since) - F.expr("interval 1 minute")
    minute = F.greatest(minute_of(instant), start)
    moved = rows.where(instant.isNotNull())
    return moved.select("service", "dialect", minute.alias("minute"), F.lit(by).alias(name))
