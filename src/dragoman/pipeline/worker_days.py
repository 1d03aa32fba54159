"""Gold `worker_days`: sessions, utilisation and run times of each worker by UTC day.

`flaps` is the number of sessions that ended. `utilisation` is the share of the connected time with
at least one assignment.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns

TABLE: Final = "worker_days"
SCHEMA: Final = columns("""
    worker string
    sessions bigint
    flaps bigint
    connected_us bigint
    busy_us bigint
    utilisation double
    dispatched bigint
    ended bigint
    failed bigint
    lost bigint
    run_us bigint
    mean_run_us bigint
    slowest_us bigint
    slowest_job string
    day date
""")
_SUMS: Final = ("connected_us", "busy_us", "dispatched", "ended", "failed", "lost", "run_us")


def worker_days(session_days: DataFrame) -> DataFrame:
    """Sum the sessions of each worker by day."""
    slowest = F.struct("slowest_us", "slowest_job")
    summed = session_days.groupBy("worker", "day").agg(
        F.count_distinct("peer", "session").alias("sessions"),
        F.sum("leaves").alias("flaps"),
        *[F.sum(name).alias(name) for name in _SUMS],
        F.max(F.when(F.col("slowest_us").isNotNull(), slowest)).alias("slowest"),
    )
    utilisation = F.when(F.col("connected_us") > 0, F.col("busy_us") / F.col("connected_us"))
    mean = F.when(F.col("ended") > 0, F.floor(F.col("run_us") / F.col("ended")))
    rows = summed.withColumns({"utilisation": utilisation, "mean_run_us": mean})
    return cast_to(rows.select("*", "slowest.*"), SCHEMA)
