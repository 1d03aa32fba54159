"""Silver `sessions`: one row for each stay of a worker.

A session ends with its `left` record; if there is none, with the broker process that knew it,
unless the worker said afterwards that it was still there; else with the next `joined` of the same
peer. Rows settle when the session has left or was followed by another: a session that is only
doubted because the broker stopped may still come back.

`busy_us` is the time with at least one assignment, `connected_us` the whole stay; both are
counted up to the newest record while the session is on.
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
#: What the control records alone tell.
STAY: Final = columns("""
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
#: The same with what it did meanwhile; the day comes last in both.
SCHEMA: Final = StructType(
    [
        *STAY.fields[:-1],
        *columns("""
    assignments bigint
    connected_us bigint
    busy_us bigint
    busy_share double
"""),
        STAY.fields[-1],
    ]
)


def stays(control: DataFrame) -> DataFrame:
    """Fold the records of each session into its stay, without what it did meanwhile."""
    rows = of_sessions(control).where(F.col("session").isNotNull())
    folded = rows.groupBy("peer", "session").agg(*_given(), *_left())
    in_order = Window.partitionBy("peer").orderBy("session")
    next_at = F.lead("joined_at").over(in_order)
    folded = folded.withColumn("next_at", next_at).join(_doubts(folded, control), KEY, "left")
    return cast_to(folded.withColumns(_ended()), STAY)


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
    said = {"left_at": "at", "left_why": "detail", "left_fault": "fault", "left_beats": "count"}
    firsts = [F.min_by(of, seq).alias(name) for name, of in said.items()]
    return [F.min(seq).alias("left_seq"), *firsts]


def _doubts(folded: DataFrame, control: DataFrame) -> DataFrame:
    """Return the first boundary after each session's newest sign of life."""
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
    has_left, is_doubted = F.col("left_seq").isNotNull(), F.col("mark_at").isNotNull()
    is_followed = F.col("next_at").isNotNull()
    left_at = F.when(has_left, F.col("left_at"))
    left_at = left_at.when(is_doubted, F.least("mark_at", "next_at")).otherwise(F.col("next_at"))
    why = F.when(has_left, F.col("left_why"))
    why = why.when(is_doubted, F.concat(F.lit("the broker "), F.col("mark")))
    return {
        "why": why.when(is_followed, F.lit("joined again")).otherwise(F.lit("")),
        "fault": F.coalesce("left_fault", F.lit("")),
        "beats": F.coalesce("left_beats", F.lit(0)),
        "day": F.when(has_left | is_followed, day_of(left_at)),
        "left_at": left_at,
    }


def sessions(stays: DataFrame, session_days: DataFrame, horizon: datetime) -> DataFrame:
    """Add what each session did, from its days."""
    did = session_days.groupBy(*KEY).agg(
        F.sum("dispatched").alias("assignments"), F.sum("busy_us").alias("busy_us")
    )
    until = F.coalesce(F.col("left_at"), F.lit(horizon))
    connected = span_us(F.col("joined_at"), until)
    rows = stays.join(did, KEY, "left").withColumns(
        {
            "assignments": F.coalesce("assignments", F.lit(0)),
            "busy_us": F.coalesce("busy_us", F.lit(0)),
            "connected_us": connected,
        }
    )
    share = F.when(F.col("connected_us") > 0, F.col("busy_us") / F.col("connected_us"))
    return cast_to(rows.withColumn("busy_share", share), SCHEMA)
