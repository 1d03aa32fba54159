"""The control records: worker sessions and broker processes, and the state they imply.

A session is identified by its worker's peer id and the number of its `joined` record. Control
records are few. Those of open sessions are carried from step to step.
"""

from datetime import datetime
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.schema import BOUNDARY_KINDS, SESSION_KINDS, cast_to, columns, is_kind
from dragoman.pipeline.snapshot import instant

TABLE: Final = "carried_control"
SCHEMA: Final = columns("""
    seq bigint
    at timestamp
    kind string
    peer string
    worker string
    dialect string
    principal string
    fault string
    detail string
    count bigint
""")
#: Days in which a dispatch to a worker that left breaks a rule; then its `left` is forgotten.
LEFT_DAYS: Final = 7


def control(records: DataFrame) -> DataFrame:
    """Select the records of sessions and of broker processes."""
    return cast_to(records.where(is_kind(*SESSION_KINDS, *BOUNDARY_KINDS)), SCHEMA)


def boundaries(control: DataFrame) -> DataFrame:
    """Select the records after which earlier sessions may have ended unseen."""
    return control.where(is_kind(*BOUNDARY_KINDS))


class ControlBounds(NamedTuple):
    """What a step must know of the control records before it plans."""

    #: The numbers of the boundaries, in order.
    marks: list[int]
    #: When the oldest session began that the step writes; None without sessions.
    oldest: datetime | None


def bounds(control: DataFrame) -> ControlBounds:
    """Find the boundaries and the beginning of the oldest session, in one pass."""
    marks = F.array_sort(F.collect_list(F.when(is_kind(*BOUNDARY_KINDS), F.col("seq"))))
    joined = F.unix_micros(F.min(F.when(is_kind(Kind.JOINED), F.col("at"))))
    found, oldest = control.agg(marks, joined).collect()[0]
    return ControlBounds(found, None if oldest is None else instant(oldest))


def recent(boundaries: list[int], after: int) -> list[int]:
    """Return the boundaries that records after a position can refer to: the last, and later ones.

    So the plan of a step does not grow with every restart of the broker.
    """
    return [seq for seq in boundaries if seq <= after][-1:] + [s for s in boundaries if s > after]


def of_sessions(control: DataFrame) -> DataFrame:
    """Give each session record the number of its session's `joined` record, as `session`."""
    so_far = Window.partitionBy("peer").orderBy("seq")
    joined = F.last(F.when(is_kind(Kind.JOINED), F.col("seq")), ignorenulls=True)
    return control.where(is_kind(*SESSION_KINDS)).withColumn("session", joined.over(so_far))


def spans(control: DataFrame) -> DataFrame:
    """Return the ranges of records in which a worker was connected, or gone.

    One row for each `joined`, `resynced` and `left`. It is the worker's newest session record for
    the records `said_seq < seq < next_seq`, after a `left` up to `until_at` only. Who has left has
    no session.
    """
    rows = of_sessions(control).where(is_kind(Kind.JOINED, Kind.RESYNCED, Kind.LEFT))
    following = F.lead("seq", 1, 2**62).over(Window.partitionBy("peer").orderBy("seq"))
    has_left = is_kind(Kind.LEFT)
    return rows.select(
        "peer",
        F.when(~has_left, F.col("session")).alias("session"),
        F.when(has_left, _forgotten_at()).alias("until_at"),
        F.col("kind").alias("said"),
        F.col("seq").alias("said_seq"),
        following.alias("next_seq"),
    )


def _forgotten_at() -> Column:
    return F.col("at") + F.make_dt_interval(F.lit(LEFT_DAYS))


def carried_over(control: DataFrame, horizon: datetime) -> DataFrame:
    """Select what the next step needs: open sessions, the last `left` of a peer, all boundaries.

    Later records are no older than the horizon, so a `left` of long before it is of no use.
    """
    rows = of_sessions(control)
    per_peer = Window.partitionBy("peer")
    newest = F.max(F.when(is_kind(Kind.JOINED), F.col("seq"))).over(per_peer)
    left = F.max(F.when(is_kind(Kind.LEFT), F.col("seq"))).over(per_peer)
    rows = rows.withColumn("newest", F.coalesce(newest, F.lit(0))).withColumn("left", left)
    is_over = F.coalesce(F.col("left") > F.col("newest"), F.lit(False))
    of_newest = F.coalesce(F.col("session"), F.lit(0)) == F.col("newest")
    is_last = (F.col("seq") == F.col("left")) & (_forgotten_at() >= F.lit(horizon))
    kept = F.when(is_over, is_last).otherwise(of_newest)
    return cast_to(rows.where(kept), SCHEMA).unionAll(boundaries(control))
