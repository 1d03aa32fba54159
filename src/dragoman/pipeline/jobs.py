"""Silver `jobs`: one row per job. Rows of ended jobs have a day and are settled; others have none.

`queue_us` is the time from submission to the first dispatch, or to the end if there was none.
`run_us` is the rest up to the end, over all attempts. Their sum is `total_us`.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns, day_of, span_us

TABLE: Final = "jobs"
SCHEMA: Final = columns("""
    job string
    client string
    principal string
    service string
    served_by string
    task string
    dialect_in string
    dialect_out string
    target string
    priority bigint
    is_strict boolean
    terms string
    state string
    fault string
    worker string
    parts bigint
    dispatches bigint
    attempts bigint
    requeues bigint
    hops bigint
    cancels bigint
    submitted_seq bigint
    submitted_at timestamp
    deadline_at timestamp
    started_seq bigint
    started_at timestamp
    ended_seq bigint
    ended_at timestamp
    last_seq bigint
    queue_us bigint
    run_us bigint
    total_us bigint
    request_bytes bigint
    result_bytes bigint
    day date
""")

_STARTED: Final = {"started_seq": "dispatched_seq", "started_at": "dispatched_at"}
_NEWEST: Final = {"worker": "worker", "dialect_out": "dialect", "served_by": "service"}


def jobs(folded: DataFrame) -> DataFrame:
    """Make one row of each folded job."""
    first, newest = F.array_min("dispatched"), F.array_max("dispatched")
    rows = folded.select(
        *("*", "given.*"),
        F.col("end.end_seq").alias("ended_seq"),
        F.col("end.end_at").alias("ended_at"),
        *[first[of].alias(name) for name, of in _STARTED.items()],
        *[F.coalesce(newest[of], F.lit("")).alias(name) for name, of in _NEWEST.items()],
        F.size("dispatched").alias("dispatches"),
    )
    submitted, started, ended = F.col("submitted_at"), F.col("started_at"), F.col("ended_at")
    rows = rows.withColumns(
        {
            "state": F.coalesce("end.end_state", "came.state"),
            "fault": F.coalesce("end.end_fault", F.lit("")),
            "parts": F.greatest(F.coalesce(F.col("bound_parts"), F.lit(1)), F.col("moved_parts")),
            "queue_us": span_us(submitted, F.coalesce(started, ended)),
            "run_us": span_us(F.coalesce(started, ended), ended),
            "total_us": span_us(submitted, ended),
            "day": day_of(ended),
        }
    )
    return cast_to(rows, SCHEMA)
