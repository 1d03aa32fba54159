"""Gold `service_minutes`: each service, asked in each dialect, minute by minute.

Jobs count in the minute they ended in, submissions and refusals in the minute they came in.
Percentiles are exact, over the jobs that ended in the minute. `backlog` is how many jobs waited
for their first worker when the minute was over, `running` how many assignments were under way.
A minute in which nothing happened has no row.
"""

from datetime import datetime
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
    moments = _of_jobs(jobs, since)
    moments = moments.unionByName(_of_assignments(assignments, since), allowMissingColumns=True)
    moments = moments.unionByName(_of_refusals(refusals, since), allowMissingColumns=True)
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
    return shaped(rows.where(F.col("minute") >= F.lit(since)), SCHEMA)


def minute_of(instant: Column) -> Column:
    """Return the minute an instant is in."""
    return F.date_trunc("minute", instant)


def _no_earlier(instant: Column, since: datetime) -> Column:
    """Return the minute of an instant; what was before `since` is all in the minute before it.

    That minute is not wanted, but the levels start from it. Null if the instant has not come.
    """
    start = F.lit(since) - F.expr("interval 1 minute")
    minute = F.greatest(minute_of(instant), start)
    return F.when(instant.isNotNull(), minute).alias("minute")


def _moments(rows: DataFrame, dialect: str, *moments: Column) -> DataFrame:
    """Give each row its moments, without those that have not come."""
    found = rows.select("service", F.col(dialect).alias("dialect"), F.inline(F.array(*moments)))
    return found.where(F.col("minute").isNotNull())


def _of_jobs(jobs: DataFrame, since: datetime) -> DataFrame:
    """A job comes, leaves the queue and ends."""
    nothing = {
        **dict.fromkeys(("backlog", "submitted"), F.lit(0)),
        **dict.fromkeys(("state", "fault"), F.lit(None).cast("string")),
        **dict.fromkeys(("queue_us", "run_us"), F.lit(None).cast("bigint")),
    }

    def moment(instant: Column, **said: Column) -> Column:
        words = [value.alias(name) for name, value in (nothing | said).items()]
        return F.struct(_no_earlier(instant, since), *words)

    end = {name: F.col(name) for name in ("state", "fault", "queue_us", "run_us")}
    return _moments(
        jobs,
        "dialect_in",
        moment(F.col("submitted_at"), backlog=F.lit(1), submitted=F.lit(1)),
        moment(F.coalesce("started_at", "ended_at"), backlog=F.lit(-1)),
        moment(F.col("ended_at"), **end),
    )


def _of_assignments(assignments: DataFrame, since: datetime) -> DataFrame:
    """An assignment begins and ends."""

    def moment(name: str, by: int) -> Column:
        return F.struct(_no_earlier(F.col(name), since), F.lit(by).alias("running"))

    steps = (moment("dispatched_at", 1), moment("ended_at", -1))
    found = _moments(assignments, "dialect_in", *steps)
    # There are two for each assignment: summed up early, they are few.
    return found.groupBy(*_KEY).agg(F.sum("running").alias("running"))


def _of_refusals(refusals: DataFrame, since: datetime) -> DataFrame:
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
    """Count what is in a list, by name, in the order of the names."""
    alike = f"size(filter({name}, other -> other = one))"
    pairs = f"transform(array_sort(array_distinct({name})), one -> struct(one, bigint({alike})))"
    return F.expr(f"map_from_entries({pairs})")
