"""The records a job's row is folded from, and what each of them means where it stands.

A job is known by its id and `submitted_at`: an id may be used again when the first job of that
name is long forgotten. The records of jobs that are not over are carried from step to step, so
that one fold over a whole life serves every way of cutting the ledger into batches.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dragoman.model.record import Kind
from dragoman.pipeline.schema import LIFE_KINDS, columns, is_kind, shaped

TABLE: Final = "carried_life"
SCHEMA: Final = columns("""
    seq bigint
    at timestamp
    kind string
    job string
    part bigint
    attempt bigint
    service string
    task string
    client string
    worker string
    peer string
    principal string
    dialect string
    target string
    state string
    fault string
    detail string
    nbytes bigint
    priority bigint
    terms string
    submitted_at timestamp
    deadline_at timestamp
    strict boolean
    session bigint
    said string
    said_seq bigint
    boundary_seq bigint
""")
#: The same with what `annotate` adds.
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
#: What makes two records speak of the same job.
KEY: Final = ("job", "submitted_at")


def life(records: DataFrame, spans: DataFrame, boundaries: list[int]) -> DataFrame:
    """Select new records of jobs, each with what its worker's session was at that point."""
    rows = records.where(is_kind(*LIFE_KINDS))
    of_session = is_kind(Kind.DISPATCHED, Kind.REQUEUED)
    known = spans.withColumnRenamed("peer", "span_peer")
    is_then = (F.col("seq") > F.col("said_seq")) & (F.col("seq") < F.col("next_seq"))
    is_its = of_session & (F.col("peer") == F.col("span_peer")) & is_then
    rows = rows.join(F.broadcast(known), is_its, "left")
    return shaped(rows.withColumn("boundary_seq", _newest_before(boundaries)), SCHEMA)


def _newest_before(boundaries: list[int]) -> Column:
    """Return the newest boundary before a record that was requeued."""
    if not boundaries:
        return F.lit(None).cast("bigint")
    known = F.array(*[F.lit(seq).cast("bigint") for seq in boundaries])
    before = F.array_max(F.filter(known, lambda seq: seq < F.col("seq")))
    return F.when(is_kind(Kind.REQUEUED), before)


def annotate(life: DataFrame) -> DataFrame:
    """Give each record its job's submission and end, and the dispatch it belongs to.

    `held_*`: the newest dispatch of the record's part, up to the record itself. `end_*`: the
    job's first `ended`. The windows are in this order so that one sort serves both.
    """
    part_so_far = Window.partitionBy(*KEY, "part").orderBy("seq")
    whole_job = Window.partitionBy(*KEY)
    is_dispatch, is_end = is_kind(Kind.DISPATCHED), is_kind(Kind.ENDED)

    def held(name: str) -> Column:
        return F.last(F.when(is_dispatch, F.col(name)), ignorenulls=True).over(part_so_far)

    def end(name: str) -> Column:
        of_end, seq = F.when(is_end, F.col(name)), F.when(is_end, F.col("seq"))
        return F.min_by(of_end, seq).over(whole_job)

    rows = life.withColumns({f"held_{n}": held(n) for n in ("seq", "attempt", "worker")})
    ends = {f"end_{n}": end(n) for n in ("seq", "at", "state", "fault", "attempt", "nbytes")}

    def first(name: str) -> Column:
        return F.max(F.when(is_kind(Kind.SUBMITTED), F.col(name))).over(whole_job)

    firsts = {"submitted_seq": first("seq"), "dialect_in": first("dialect")}
    return rows.withColumns({**ends, **firsts})


def is_unfinished() -> Column:
    """Whether a record is more than a part of a job that came and ended in this step."""
    is_stray = F.col("submitted_seq").isNull()
    return is_stray | F.col("end_seq").isNull() | (F.col("seq") > F.col("end_seq"))


def lived(annotated: DataFrame) -> DataFrame:
    """Select what jobs were made of: submitted, and not after their end."""
    in_time = F.col("end_seq").isNull() | (F.col("seq") <= F.col("end_seq"))
    return annotated.where(F.col("submitted_seq").isNotNull() & in_time)


def still_open(annotated: DataFrame) -> DataFrame:
    """Select the records of jobs that are not over, for the next step."""
    is_open = F.col("submitted_seq").isNotNull() & F.col("end_seq").isNull()
    return shaped(annotated.where(is_open), SCHEMA)


def after_the_end(annotated: DataFrame) -> DataFrame:
    """Select what came after the end of a job that is at hand."""
    return annotated.where(F.col("submitted_seq").isNotNull() & (F.col("seq") > F.col("end_seq")))


def strays(annotated: DataFrame) -> DataFrame:
    """Select records of jobs that ended in an earlier step, or that nobody submitted."""
    return annotated.where(F.col("submitted_seq").isNull())
