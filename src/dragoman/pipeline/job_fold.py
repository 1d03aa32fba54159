"""The fold: one row per job from all its records, the common input of `jobs` and `assignments`.

Records are shuffled, sorted and aggregated once for both tables. Before the shuffle each record is
reduced to the fields of its kind: most columns matter in one kind only, and this tests the kind
once instead of in every aggregate. The result does not depend on the order of the records.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.job_records import KEY
from dragoman.pipeline.schema import is_kind, struct_of

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
_END: Final = {f"end_{name}": name for name in ("seq", "at", "state", "fault", "attempt", "nbytes")}
#: The sequence number comes first: it orders the dispatches of a job.
_DISPATCH: Final = {
    "dispatched_seq": "seq",
    "dispatched_at": "at",
    **{name: name for name in ("part", "attempt", "service", "client", "worker", "peer")},
    **{name: name for name in ("session", "dialect")},
}
_ACCEPT: Final = {"seq": "seq", "part": "part", "at": "at"}


def fold_jobs(records: DataFrame) -> DataFrame:
    """Fold the records of each job; a job without a `submitted` record has no row.

    Records after the first `ended` of their job must not be among them.
    """
    moved = records.select(*KEY, *_reduced()).repartition(*KEY).sortWithinPartitions(*KEY)
    folded = moved.groupBy(*KEY).agg(
        F.max("given").alias("given"),
        F.min("end").alias("end"),
        F.max("came").alias("came"),
        *[F.collect_list(name).alias(name) for name in ("dispatched", "accepted", "stopped")],
        *[F.max(name).alias(name) for name in ("bound_parts", "moved_parts")],
        *[F.count(name).alias(name) for name in ("requeues", "hops", "cancels")],
        F.max("attempt").alias("attempts"),
        F.coalesce(F.sum("result"), F.lit(0)).alias("result_bytes"),
        F.max("seq").alias("last_seq"),
    )
    return folded.where(F.col("given").isNotNull())


def _reduced() -> list[Column]:
    """Reduce a record to the fields of its kind; the others are null."""
    has_state = (F.col("state") != "") & ~is_kind(Kind.GATHERED)
    names = F.split(F.col("detail"), "\n")
    reduced = {
        "given": F.when(is_kind(Kind.SUBMITTED), struct_of(_GIVEN)),
        "end": F.when(is_kind(Kind.ENDED), struct_of(_END)),
        "came": F.when(has_state, F.struct("seq", "state")),
        "dispatched": F.when(is_kind(Kind.DISPATCHED), struct_of(_DISPATCH)),
        "accepted": F.when(is_kind(Kind.ACCEPTED), struct_of(_ACCEPT)),
        "stopped": F.when(is_kind(Kind.REQUEUED, Kind.FORWARDED, Kind.GATHERED), _stop()),
        "bound_parts": F.when(is_kind(Kind.BOUND), F.size(names)),
        # A part whose resources moved to several workers is split into more parts.
        "moved_parts": F.when(is_kind(Kind.MOVED), F.col("part") + 1),
        "requeues": F.when(is_kind(Kind.REQUEUED), True),
        "hops": F.when(is_kind(Kind.FORWARDED), True),
        "cancels": F.when(is_kind(Kind.CANCEL_ASKED), True),
        "result": F.when(is_kind(Kind.ENDED, Kind.GATHERED), F.col("nbytes")),
    }
    return [F.col("seq"), F.col("attempt"), *[value.alias(name) for name, value in reduced.items()]]


def _stop() -> Column:
    """The end of an attempt before the end of its job."""
    outcome = F.when(is_kind(Kind.GATHERED), F.col("state")).otherwise(F.col("kind"))
    return F.struct("seq", "at", outcome.alias("outcome"), "fault", "nbytes", "part")
