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
_END: Final = {
    f"end_{name}": name
    for name in ("seq", "at", "state", "fault", "attempt", "nbytes", "part", "worker")
}
#: The sequence number comes first: it orders the dispatches of a job.
_DISPATCH: Final = {
    "dispatched_seq": "seq",
    "dispatched_at": "at",
    **{name: name for name in ("part", "attempt", "service", "client", "worker", "peer")},
    **{name: name for name in ("session", "dialect")},
}
_RESULT: Final = ("seq", "part", "attempt", "worker")
_ACCEPT: Final = {"seq": "seq", "part": "part", "at": "at"}
_LISTS: Final = {"dispatch": "dispatched", "accept": "accepted", "stop": "stopped"}


def fold_jobs(records: DataFrame, partitions: int = 1) -> DataFrame:
    """Fold the records of each job, in a number of partitions.

    Without a `submitted` record, `given` is null. With records after the first `ended` of the job,
    the row is of use for `is_notable` and `is_late` only.
    """
    reduced = records.select(*KEY, *_reduced())
    moved = reduced.repartition(partitions, *KEY).sortWithinPartitions(*KEY)
    return moved.groupBy(*KEY).agg(
        F.max("given").alias("given"),
        F.min("end").alias("end"),
        F.max("came").alias("came"),
        *[F.collect_list(one).alias(many) for one, many in _LISTS.items()],
        *[F.max(name).alias(name) for name in ("bound_parts", "moved_parts")],
        *[F.count(name).alias(name) for name in ("requeues", "hops", "cancels", "doubts")],
        F.max("attempt").alias("attempts"),
        F.coalesce(F.sum("result"), F.lit(0)).alias("result_bytes"),
        F.max("seq").alias("last_seq"),
    )


def is_late() -> Column:
    """Whether a folded job has records after its end."""
    return F.coalesce(F.col("last_seq") > F.col("end.end_seq"), F.lit(False))


def is_notable() -> Column:
    """Whether a folded job is open or may have broken a rule; true for some others, too."""
    is_over = F.col("given").isNotNull() & (F.col("last_seq") == F.col("end.end_seq"))
    is_single = (F.size("dispatched") == 1) & (F.size("stopped") == 0)
    end = F.struct(*[F.col(f"end.end_{name}").alias(name) for name in _RESULT])
    gathered = F.filter("stopped", lambda stop: stop["is_result"])
    others = F.transform(gathered, lambda s: F.struct(*[s[name].alias(name) for name in _RESULT]))
    each = F.forall(F.concat(F.array(end), others), _is_of_newest)
    # Nearly all jobs are single, and the functions of lists are slow.
    is_plain = F.when(is_single, _is_of(end, F.get("dispatched", F.lit(0)))).otherwise(each)
    return ~F.coalesce(is_over & (F.col("doubts") == 0) & is_plain, F.lit(False))


def _is_of_newest(result: Column) -> Column:
    """Whether a result is of the newest dispatch of its part."""
    of_part = F.filter("dispatched", lambda one: one["part"] == result["part"])
    return F.coalesce(_is_of(result, F.array_max(of_part)), F.lit(False))


def _is_of(result: Column, held: Column) -> Column:
    """Whether a result follows a dispatch and names no other attempt or worker."""
    is_after = (held["part"] == result["part"]) & (held["dispatched_seq"] < result["seq"])
    same_attempt = (result["attempt"] <= 0) | (result["attempt"] == held["attempt"])
    same_worker = (result["worker"] == "") | (result["worker"] == held["worker"])
    return is_after & same_attempt & same_worker


def _reduced() -> list[Column]:
    """Reduce a record to the fields of its kind; the others are null."""
    has_state = (F.col("state") != "") & ~is_kind(Kind.GATHERED)
    names = F.split(F.col("detail"), "\n")
    to_lost = is_kind(Kind.DISPATCHED) & (F.col("said") == Kind.LEFT.value)
    taken_back = is_kind(Kind.REQUEUED) & (F.col("fault") == "worker_lost")
    reduced = {
        "given": F.when(is_kind(Kind.SUBMITTED), struct_of(_GIVEN)),
        "end": F.when(is_kind(Kind.ENDED), struct_of(_END)),
        "came": F.when(has_state, F.struct("seq", "state")),
        "dispatch": F.when(is_kind(Kind.DISPATCHED), struct_of(_DISPATCH)),
        "accept": F.when(is_kind(Kind.ACCEPTED), struct_of(_ACCEPT)),
        "stop": F.when(is_kind(Kind.REQUEUED, Kind.FORWARDED, Kind.GATHERED), _stop()),
        "bound_parts": F.when(is_kind(Kind.BOUND), F.size(names)),
        # A part whose resources moved to several workers is split into more parts.
        "moved_parts": F.when(is_kind(Kind.MOVED), F.col("part") + 1),
        "requeues": F.when(is_kind(Kind.REQUEUED), True),
        "hops": F.when(is_kind(Kind.FORWARDED), True),
        "cancels": F.when(is_kind(Kind.CANCEL_ASKED), True),
        "doubts": F.when(to_lost | taken_back, True),
        "result": F.when(is_kind(Kind.ENDED, Kind.GATHERED), F.col("nbytes")),
    }
    return [F.col("seq"), F.col("attempt"), *[value.alias(name) for name, value in reduced.items()]]


def _stop() -> Column:
    """The end of an attempt before the end of its job."""
    is_result = is_kind(Kind.GATHERED)
    outcome = F.when(is_result, F.col("state")).otherwise(F.col("kind")).alias("outcome")
    about = ("fault", "nbytes", "part", "attempt", "worker")
    return F.struct("seq", "at", outcome, *about, is_result.alias("is_result"))
