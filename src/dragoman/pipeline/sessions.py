"""Silver `sessions`: one row for each session of a worker.

A session ends with its `left` record. Without one, it ends with the broker process that it was
connected to, unless the worker resynced afterwards. Otherwise it ends with the next `joined` of the
same peer. A row is settled when the session has left or another followed: after a broker restart
the worker may still resync.

`busy_us` is the time with at least one assignment, `connected_us` the whole session. For an open
session both end at the newest record.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dragoman.model.record import Kind
from dragoman.pipeline.control import boundaries, of_sessions
from dragoman.pipeline.schema import cast_to, columns, day_of, is_kind, span_us

TABLE: Final = "sessions"
#: A base session: the columns that follow from control records alone.
BASE: Final = columns("""
    peer string
    session bigint
    worker string
    dialect string
    principal string
    services string
    joined_at timestamp
    resyncs bigint
    left_seq bigint
    left_at timestamp
    why string
    fault string
    beats bigint
    day date
""")
#: The same with its work; the day comes last in both.
SCHEMA: Final = StructType(
    [
        *BASE.fields[:-1],
        *columns("""
    assignments bigint
    connected_us bigint
    busy_us bigint
    busy_share double
"""),
        BASE.fields[-1],
    ]
)


def base_sessions(control: DataFrame) -> DataFrame:
    """Fold the control records of each session, without its work."""
    rows = of_sessions(control).where(F.col("session").isNotNull())
    folded = rows.groupBy("peer", "session").agg(*_given(), *_left())
    in_order = Window.partitionBy("peer").orderBy("session")
    next_at = F.lead("joined_at").over(in_order)
    folded = folded.withColumn("next_at", next_at).join(
        _boundary_after(folded, control), KEY, "left"
    )
    return cast_to(folded.withColumns(_ended()), BASE)


KEY: Final = ["peer", "session"]


def _given() -> list[Column]:
    is_first = is_kind(Kind.JOINED)
    given = {"joined_at": "at", "worker": "worker", "dialect": "dialect", "principal": "principal"}
    services = F.when(is_kind(Kind.JOINED, Kind.RESYNCED), F.col("seq"))
    return [
        *[F.max(F.when(is_first, F.col(of))).alias(name) for name, of in given.items()],
        F.max_by("detail", services).alias("services"),
        F.count_if(is_kind(Kind.RESYNCED)).alias("resyncs"),
        F.max(F.when(~is_kind(Kind.LEFT), F.col("seq"))).alias("seen_seq"),
    ]


def _left() -> list[Column]:
    seq = F.when(is_kind(Kind.LEFT), F.col("seq"))
    names = {"left_at": "at", "left_why": "detail", "left_fault": "fault", "left_beats": "count"}
    firsts = [F.min_by(of, seq).alias(name) for name, of in names.items()]
    return [F.min(seq).alias("left_seq"), *firsts]


def _boundary_after(folded: DataFrame, control: DataFrame) -> DataFrame:
    """Return the first boundary after the newest record of each session."""
    marks = boundaries(control).select(
        F.col("seq").alias("mark_seq"), F.col("at").alias("mark_at"), F.col("kind").alias("mark")
    )
    after = folded.select(*KEY, "seen_seq").join(
        F.broadcast(marks), F.col("mark_seq") > F.col("seen_seq")
    )
    return after.groupBy(*KEY).agg(
        F.min_by("mark_at", "mark_seq").alias("mark_at"),
        F.min_by("mark", "mark_seq").alias("mark"),
    )


def _ended() -> dict[str, Column]:
    has_left, is_in_doubt = F.col("left_seq").isNotNull(), F.col("mark_at").isNotNull()
    is_followed = F.col("next_at").isNotNull()
    left_at = F.when(has_left, F.col("left_at"))
    left_at = left_at.when(is_in_doubt, F.least("mark_at", "next_at")).otherwise(F.col("next_at"))
    why = F.when(has_left, F.col("left_why"))
    why = why.when(is_in_doubt, F.concat(F.lit("the broker "), F.col("mark")))
    return {
        "why": why.when(is_followed, F.lit("joined again")).otherwise(F.lit("")),
        "fault": F.coalesce("left_fault", F.lit("")),
        "beats": F.coalesce("left_beats", F.lit(0)),
        "day": F.when(has_left | is_followed, day_of(left_at)),
        "left_at": left_at,
    }


def sessions(base: DataFrame, session_days: DataFrame, horizon: datetime) -> DataFrame:
    """Add the work of each session, from its days."""
    work = session_days.groupBy(*KEY).agg(
        F.sum("dispatched").alias("assignments"), F.sum("busy_us").alias("busy_us")
    )
    until = F.coalesce(F.col("left_at"), F.lit(horizon))
    connected = span_us(F.col("joined_at"), until)
    rows = base.join(work, KEY, "left").withColumns(
        {
            "assignments": F.coalesce("assignments", F.lit(0)),
            "busy_us": F.coalesce("busy_us", F.lit(0)),
            "connected_us": connected,
        }
    )
    share = F.when(F.col("connected_us") > 0, F.col("busy_us") / F.col("connected_us"))
    return cast_to(rows.withColumn("busy_share", share), SCHEMA)
