"""The records of jobs, annotated with what surrounds them.

A job is identified by its id and `submitted_at`: an id may be used again long after its first job
ended. The records of open jobs are carried from step to step. So one fold over all records of a job
gives the same row for every division of the ledger into batches.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dragoman.model.record import Kind
from dragoman.pipeline.schema import JOB_KINDS, RECORD, cast_to, columns, is_kind, struct_of

TABLE: Final = "carried_life"
_NOT_CARRIED: Final = frozenset({"digest", "key", "count", "version"})
#: The columns of a record that jobs use, and the state of its worker's session.
SCHEMA: Final = StructType(
    [
        *(field for field in RECORD.fields if field.name not in _NOT_CARRIED),
        *columns("""
    session bigint
    said string
    said_seq bigint
    boundary_seq bigint
"""),
    ]
)
#: The same with the columns that `annotate` adds.
ANNOTATED: Final = StructType(
    [
        *SCHEMA.fields,
        *columns("""
    held_seq bigint
    held_attempt bigint
    held_worker string
    end_seq bigint
    end_at timestamp
    end_state string
    end_fault string
    end_attempt bigint
    end_nbytes bigint
    submitted_seq bigint
    dialect_in string
""").fields,
    ]
)
_HELD: Final = {f"held_{name}": name for name in ("seq", "attempt", "worker")}
_END: Final = {f"end_{name}": name for name in ("seq", "at", "state", "fault", "attempt", "nbytes")}
_FIRST: Final = {"submitted_seq": "seq", "dialect_in": "dialect"}
#: The key of a job. The instant comes first: ids share prefixes, so instants compare faster.
KEY: Final = ("submitted_at", "job")


def job_records(records: DataFrame, spans: DataFrame, boundaries: list[int]) -> DataFrame:
    """Select the records of jobs, each with the state of its worker's session at that point."""
    rows = records.where(is_kind(*JOB_KINDS))
    # Records of other kinds get a null key, so the join skips them.
    key = F.when(is_kind(Kind.DISPATCHED, Kind.REQUEUED), F.col("peer"))
    known = spans.withColumnRenamed("peer", "span_peer")
    is_then = (F.col("seq") > F.col("said_seq")) & (F.col("seq") < F.col("next_seq"))
    is_then &= F.col("until_at").isNull() | (F.col("at") <= F.col("until_at"))
    rows = rows.join(F.broadcast(known), (key == F.col("span_peer")) & is_then, "left")
    return cast_to(rows.withColumn("boundary_seq", _newest_before(boundaries)), SCHEMA)


def _newest_before(boundaries: list[int]) -> Column:
    """Return the newest boundary before a `requeued` record."""
    if not boundaries:
        return F.lit(None).cast("bigint")
    known = F.array(*[F.lit(seq).cast("bigint") for seq in boundaries])
    before = F.array_max(F.filter(known, lambda seq: seq < F.col("seq")))
    return F.when(is_kind(Kind.REQUEUED), before)


def annotate(records: DataFrame) -> DataFrame:
    """Add to each record its job's submission and end, and the dispatch it belongs to.

    `held_*` is the newest dispatch of the record's part, up to the record itself. `end_*` is the
    job's first `ended` record. In this order of the windows one sort serves both.
    """
    part_so_far = Window.partitionBy(*KEY, "part").orderBy("seq")
    whole_job = Window.partitionBy(*KEY)
    held = F.last(_of_kind(Kind.DISPATCHED, _HELD), ignorenulls=True).over(part_so_far)
    end = F.min(_of_kind(Kind.ENDED, _END)).over(whole_job)
    first = F.max(_of_kind(Kind.SUBMITTED, _FIRST)).over(whole_job)
    rows = records.withColumn("held", held).withColumns({"end": end, "first": first})
    return rows.select("*", "held.*", "end.*", "first.*").drop("held", "end", "first")


def _of_kind(kind: Kind, names: dict[str, str]) -> Column:
    """Return fields of the records of one kind, the number first; null for other kinds."""
    return F.when(is_kind(kind), struct_of(names))


def of_keys(records: DataFrame, keys: DataFrame) -> DataFrame:
    """Select the records of some jobs."""
    wanted = keys.select(*[F.col(name).alias(f"wanted_{name}") for name in KEY])
    same = [F.col(name).eqNullSafe(F.col(f"wanted_{name}")) for name in KEY]
    return records.join(wanted, same, "left_semi")


def is_unfinished() -> Column:
    """Whether a record belongs to no job that began and ended in this step, or follows its end."""
    is_stray = F.col("submitted_seq").isNull()
    return is_stray | F.col("end_seq").isNull() | (F.col("seq") > F.col("end_seq"))


def until_end(annotated: DataFrame) -> DataFrame:
    """Select the records of submitted jobs up to their end."""
    in_time = F.col("end_seq").isNull() | (F.col("seq") <= F.col("end_seq"))
    return annotated.where(F.col("submitted_seq").isNotNull() & in_time)


def still_open(annotated: DataFrame) -> DataFrame:
    """Select the records of open jobs, for the next step."""
    is_open = F.col("submitted_seq").isNotNull() & F.col("end_seq").isNull()
    return cast_to(annotated.where(is_open), SCHEMA)


def after_the_end(annotated: DataFrame) -> DataFrame:
    """Select the records that follow the end of their job."""
    return annotated.where(F.col("submitted_seq").isNotNull() & (F.col("seq") > F.col("end_seq")))


def strays(annotated: DataFrame) -> DataFrame:
    """Select records of jobs that ended in an earlier step, or have no `submitted` record."""
    return annotated.where(F.col("submitted_seq").isNull())
