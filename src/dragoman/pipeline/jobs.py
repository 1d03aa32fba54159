"""Silver `jobs`: one row a job. Settled, with a day, once it has ended; open rows have none.

`queue_us` runs to the first dispatch (to the end if there was none), `run_us` from there to the
end, through every attempt; together they are `total_us`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.life import KEY, lived
from dragoman.pipeline.schema import columns, day_of, fields, is_kind, shaped, span_us

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

_GIVEN: Final = {
    "submitted_seq": "seq",
    "client": "client",
    "principal": "principal",
    "service": "service",
    "task": "task",
    "dialect_in": "dialect",
    "target": "target",
    "priority": "priority",
    "is_strict": "strict",
    "terms": "terms",
    "deadline_at": "deadline_at",
    "request_bytes": "nbytes",
}
_STARTED: Final = {"started_seq": "seq", "started_at": "at"}
_NEWEST: Final = {
    "newest_seq": "seq",
    "worker": "worker",
    "dialect_out": "dialect",
    "served_by": "service",
}


def jobs(annotated: DataFrame) -> DataFrame:
    """Fold the records of each job into its row."""
    folded = lived(annotated).groupBy(*KEY).agg(*_said(), *_counted())
    folded = folded.select("*", *[f"{name}.*" for name in ("given", "started", "newest", "ended")])
    submitted, started, ended = F.col("submitted_at"), F.col("started_at"), F.col("ended_at")
    rows = folded.withColumns(
        {
            "state": F.coalesce(F.col("end_state"), F.col("came.state")),
            "fault": F.coalesce(F.col("end_fault"), F.lit("")),
            **{n: F.coalesce(F.col(n), F.lit("")) for n in ("worker", "dialect_out", "served_by")},
            "parts": F.greatest(F.coalesce(F.col("bound_parts"), F.lit(1)), F.col("moved_parts")),
            "queue_us": span_us(submitted, F.coalesce(started, ended)),
            "run_us": span_us(F.coalesce(started, ended), ended),
            "total_us": span_us(submitted, ended),
            "day": day_of(ended),
        }
    )
    return shaped(rows, SCHEMA)


def _said() -> list[Column]:
    """Take what single records say: one aggregate for each, ordered by the record's number."""
    is_dispatch = is_kind(Kind.DISPATCHED)
    says_state = (F.col("state") != "") & ~is_kind(Kind.GATHERED)
    end = {"ended_seq": "end_seq", "ended_at": "end_at"}
    end |= {"end_state": "end_state", "end_fault": "end_fault"}
    return [
        F.max(F.when(is_kind(Kind.SUBMITTED), fields(_GIVEN))).alias("given"),
        F.min(F.when(is_dispatch, fields(_STARTED))).alias("started"),
        F.max(F.when(is_dispatch, fields(_NEWEST))).alias("newest"),
        F.max(F.when(says_state, F.struct("seq", "state"))).alias("came"),
        F.any_value(fields(end)).alias("ended"),
    ]


def _counted() -> list[Column]:
    names = F.split(F.col("detail"), "\n")
    results = F.when(is_kind(Kind.ENDED, Kind.GATHERED), F.col("nbytes"))
    return [
        F.count_if(is_kind(Kind.DISPATCHED)).alias("dispatches"),
        F.max("attempt").alias("attempts"),
        F.count_if(is_kind(Kind.REQUEUED)).alias("requeues"),
        F.count_if(is_kind(Kind.FORWARDED)).alias("hops"),
        F.count_if(is_kind(Kind.CANCEL_ASKED)).alias("cancels"),
        F.max(F.when(is_kind(Kind.BOUND), F.size(names))).alias("bound_parts"),
        # A part that follows its resources to several workers makes more of them.
        F.max(F.when(is_kind(Kind.MOVED), F.col("part") + 1)).alias("moved_parts"),
        F.coalesce(F.sum(results), F.lit(0)).alias("result_bytes"),
        F.max("seq").alias("last_seq"),
    ]
