"""Silver `jobs`: one row a job. Settled, with a day, once it has ended; open rows have none.

`queue_us` runs to the first dispatch (to the end if there was none), `run_us` from there to the
end, through every attempt; together they are `total_us`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.life import KEY, lived
from dragoman.pipeline.schema import columns, day_of, is_kind, shaped, span_us

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
    "submitted_seq": "seq",
    "request_bytes": "nbytes",
}


def jobs(annotated: DataFrame) -> DataFrame:
    """Fold the records of each job into its row."""
    folded = lived(annotated).groupBy(*KEY).agg(*_given(), *_counted(), *_came(), *_ended())
    submitted, started, ended = F.col("submitted_at"), F.col("started_at"), F.col("ended_at")
    rows = folded.withColumns(
        {
            "state": F.coalesce(F.col("end_state"), F.col("newest_state")),
            "fault": F.coalesce(F.col("end_fault"), F.lit("")),
            "parts": F.greatest(F.coalesce(F.col("bound_parts"), F.lit(1)), F.col("moved_parts")),
            "queue_us": span_us(submitted, F.coalesce(started, ended)),
            "run_us": span_us(F.coalesce(started, ended), ended),
            "total_us": span_us(submitted, ended),
            "day": day_of(ended),
        }
    )
    return shaped(rows, SCHEMA)


def _given() -> list[Column]:
    is_first = is_kind(Kind.SUBMITTED)
    return [F.max(F.when(is_first, F.col(of))).alias(name) for name, of in _GIVEN.items()]


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
    ]


def _came() -> list[Column]:
    """How far it came: the first dispatch, the newest one, the newest record."""
    seq = F.when(is_kind(Kind.DISPATCHED), F.col("seq"))
    says_state = (F.col("state") != "") & ~is_kind(Kind.GATHERED)
    return [
        F.min(seq).alias("started_seq"),
        F.min_by("at", seq).alias("started_at"),
        F.coalesce(F.max_by("worker", seq), F.lit("")).alias("worker"),
        F.coalesce(F.max_by("dialect", seq), F.lit("")).alias("dialect_out"),
        F.coalesce(F.max_by("service", seq), F.lit("")).alias("served_by"),
        F.max_by("state", F.when(says_state, F.col("seq"))).alias("newest_state"),
        F.max("seq").alias("last_seq"),
    ]


def _ended() -> list[Column]:
    named = {"end_seq": "ended_seq", "end_at": "ended_at"}
    wanted = ("end_seq", "end_at", "end_state", "end_fault")
    return [F.max(name).alias(named.get(name, name)) for name in wanted]
