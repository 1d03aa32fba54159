"""Silver `clients`: submissions, refusals and final states of each client by UTC day.

`submitted` and `refused` count on the day of the submission, final states on the day of the end.
"""

from datetime import date
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns, day_of

TABLE: Final = "clients"
STATES: Final = ("succeeded", "failed", "expired", "cancelled", "dead")
SCHEMA: Final = columns("""
    client string
    principal string
    dialect string
    first_at timestamp
    last_at timestamp
    submitted bigint
    refused bigint
    succeeded bigint
    failed bigint
    expired bigint
    cancelled bigint
    dead bigint
    request_bytes bigint
    result_bytes bigint
    day date
""")
_SUMS: Final = ("submitted", "refused", *STATES, "request_bytes", "result_bytes")
_CLIENT: Final = ("client", "principal", "dialect")


def clients(jobs: DataFrame, refusals: DataFrame, since: date) -> DataFrame:
    """Sum the days from `since` on; `jobs` holds all that ended since then or are open."""
    of_jobs = jobs.withColumn("dialect", F.col("dialect_in"))
    arrived = of_jobs.select(
        *_CLIENT, F.col("submitted_at").alias("at"), F.lit(1).alias("submitted"), "request_bytes"
    )
    ended = of_jobs.where(F.col("ended_at").isNotNull()).select(
        *_CLIENT,
        F.col("ended_at").alias("at"),
        *[(F.col("state") == state).cast("bigint").alias(state) for state in STATES],
        "result_bytes",
    )
    refused = refusals.select(*_CLIENT, "at", F.lit(1).alias("refused"))
    rows = arrived.unionByName(ended, allowMissingColumns=True)
    rows = rows.unionByName(refused, allowMissingColumns=True)
    rows = rows.withColumn("day", day_of(F.col("at"))).where(F.col("day") >= F.lit(since))
    summed = rows.groupBy(*_CLIENT, "day").agg(
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        *[F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS],
    )
    return cast_to(summed, SCHEMA)
