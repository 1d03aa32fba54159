"""Gold `service_minutes`: counts and percentiles by service, client dialect and minute.

A job counts in the minute of its end, a submission or refusal in the minute of its arrival.
Percentiles are exact, over the jobs that ended in the minute. `backlog` is the number of jobs
without a dispatch at the end of the minute, `running` the number of assignments then. A minute
without any change has no row.
"""

from datetime import datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.clients import STATES
from dragoman.pipeline.schema import cast_to, columns, day_of

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
    """Sum the minutes from `since` on.

    Args:
        jobs: All that ended at or after `since`, or are open.
        assignments: Likewise.
        refusals: The `refused` records since then.
        since: The first minute.

    """
    found = (_ends(jobs, since), _changes(jobs, assignments, since), _refused(refusals, since))
    moments = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), found)
    # Sorted, a minute is summed up when its last row has come: in a map, all are open at once.
    moments = moments.repartition(*_KEY).sortWithinPartitions(*_KEY)
    rows = moments.groupBy(*_KEY).agg(*_counted(), *_shares())
    so_far = Window.partitionBy("service", "dialect").orderBy("minute")
    levels = {n: F.sum(n).over(so_far) for n in ("backlog", "running")}
    named = {
        f"{what}_{name}_us": F.round(F.col(what)[i])
        for what in ("queue", "run")
        for i, name in enumerate(SHARES)
    }
    day = {"day": day_of(F.col("minute"))}
    rows = rows.withColumns({**levels, **named, **day, "faults": _tally("names")})
    return cast_to(rows.where(F.col("minute") >= F.lit(since)), SCHEMA)


def minute_of(instant: Column) -> Column:
    """Return the minute of an instant."""
    return F.date_trunc("minute", instant)


def _no_earlier(instant: Column, since: datetime) -> Column:
    """Return the minute of an instant; earlier instants all get the minute before `since`.

    That minute is not returned, but `backlog` and `running` start from it. Null stays null.
    """
    start = F.lit(since) - F.expr("interval 1 minute")
    minute = F.greatest(minute_of(instant), start)
    return F.when(instant.isNotNull(), minute).alias("minute")


def _ends(jobs: DataFrame, since: datetime) -> DataFrame:
    """Return the ended jobs in the minute of their end."""
    minute = _no_earlier(F.col("ended_at"), since)
    dialect = F.col("dialect_in").alias("dialect")
    ended = jobs.where(F.col("ended_at").isNotNull())
    return ended.select("service", dialect, minute, "state", "fault", "queue_us", "run_us")


def _changes(jobs: DataFrame, assignments: DataFrame, since: datetime) -> DataFrame:
    """Return the changes of `backlog` and `running`: two of each job and of each assignment.

    They are summed by minute here, before the union with other rows, because they are many.
    """

    def change(instant: Column, backlog: int = 0, running: int = 0, submitted: int = 0) -> Column:
        by = {"backlog": backlog, "running": running, "submitted": submitted}
        numbers = [F.lit(n).cast("bigint").alias(name) for name, n in by.items()]
        return F.struct(_no_earlier(instant, since), *numbers)

    enters = change(F.col("submitted_at"), backlog=1, submitted=1)
    leaves = change(F.coalesce("started_at", "ended_at"), backlog=-1)
    begins = change(F.col("dispatched_at"), running=1)
    ends = change(F.col("ended_at"), running=-1)
    found = _each(jobs, enters, leaves).unionAll(_each(assignments, begins, ends))
    sums = [F.sum(name).alias(name) for name in ("backlog", "running", "submitted")]
    return found.groupBy(*_KEY).agg(*sums)


def _each(rows: DataFrame, *changes: Column) -> DataFrame:
    """Return the changes of each row, without those that have not happened."""
    dialect = F.col("dialect_in").alias("dialect")
    found = rows.select("service", dialect, F.inline(F.array(*changes)))
    return found.where(F.col("minute").isNotNull())


def _refused(refusals: DataFrame, since: datetime) -> DataFrame:
    minute = _no_earlier(F.col("at"), since)
    return refusals.select("service", "dialect", minute, F.lit(1).alias("refused"), "fault")


def _counted() -> list[Column]:
    sums = ("submitted", "refused", "backlog", "running")
    return [
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums],
        F.count("state").alias("ended"),
        *[F.count_if(F.col("state") == state).alias(state) for state in STATES],
        F.collect_list(F.when(F.col("fault") != "", F.col("fault"))).alias("names"),
    ]


def _shares() -> list[Column]:
    wanted = F.array(*[F.lit(share) for share in SHARES.values()])
    return [F.percentile(f"{what}_us", wanted).alias(what) for what in ("queue", "run")]


def _tally(name: str) -> Column:
    """Count the equal names of a list, in the order of the names."""
    alike = f"size(filter({name}, other -> other = one))"
    pairs = f"transform(array_sort(array_distinct({name})), one -> struct(one, bigint({alike})))"
    return F.expr(f"map_from_entries({pairs})")
