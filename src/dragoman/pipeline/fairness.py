"""Unfair waits: jobs that waited while their service worked for other clients.

The broker serves the clients of a service in turn. So while a job is the next of its client, and
any worker may take it, the service makes few dispatches for other clients. More than `MOST_TURNS`
are reported as unfair. With that many waiting clients the bound would be too low.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.schema import is_kind

#: Most dispatches of a service for other clients while a job is the next of its own client.
MOST_TURNS: Final = 1_000


def suspects(ended: DataFrame, most: int = MOST_TURNS) -> DataFrame:
    """Select jobs with more than `most` records between submission and first dispatch.

    A dispatch is a record, so this misses no unfair wait.
    """
    until = F.coalesce("started_seq", "ended_seq")
    any_worker = F.col("target").isin("any", "") & ~F.col("terms").contains('"needs"')
    waited = ended.where(any_worker & (until - F.col("submitted_seq") > most))
    return waited.select(
        "job",
        "service",
        "client",
        "submitted_seq",
        "submitted_at",
        until.alias("until_seq"),
        F.coalesce("started_at", "ended_at").alias("until_at"),
    )


def unfair(suspects: DataFrame, events: DataFrame, most: int = MOST_TURNS) -> DataFrame:
    """Count the dispatches for others while each suspect was next; return those with too many.

    Args:
        suspects: What `suspects` selected.
        events: Records that reach back to the oldest submission among them.
        most: The largest fair number of dispatches for others.

    """
    counted = _counted(_points(suspects, events))
    here = F.struct("turn", "seq")
    starts = counted.where(F.col("mark") == "from").select("wait", here.alias("start"))
    ends = counted.where(F.col("mark") == "to")
    since = F.greatest("start", F.coalesce("own", "start"))
    pairs = ends.join(starts, "wait").withColumn("since", since)
    pairs = pairs.withColumn("turns", F.col("turn") - F.col("since.turn"))
    found = pairs.where(F.col("turns") > most)
    return found.select(
        "job", "service", "client", "at", "seq", F.col("since.seq").alias("since_seq"), "turns"
    )


def _counted(points: DataFrame) -> DataFrame:
    """Number the dispatches of each service; add the previous dispatch of the same client."""
    order = ("seq", "is_turn")
    in_service = Window.partitionBy("service").orderBy(*order)
    in_service = in_service.rowsBetween(Window.unboundedPreceding, 0)
    of_client = Window.partitionBy("service", "client").orderBy(*order)
    of_client = of_client.rowsBetween(Window.unboundedPreceding, -1)
    counted = points.withColumn("turn", F.sum("is_turn").over(in_service))
    own = F.when(F.col("is_turn") == 1, F.struct("turn", "seq"))
    return counted.withColumn("own", F.max(own).over(of_client))


def _points(suspects: DataFrame, events: DataFrame) -> DataFrame:
    """Return the dispatches of the suspects' services, and the start and end of each wait."""
    services = F.broadcast(suspects.select("service").distinct())
    turns = events.where(is_kind(Kind.DISPATCHED)).join(services, "service")

    def point(rows: DataFrame, seq: str, at: str, mark: str) -> DataFrame:
        wait = F.lit(None) if mark == "turn" else F.col("submitted_seq")
        return rows.select(
            "service",
            "client",
            "job",
            F.col(seq).alias("seq"),
            F.col(at).alias("at"),
            F.lit(mark).alias("mark"),
            wait.cast("bigint").alias("wait"),
            F.lit(int(mark == "turn")).alias("is_turn"),
        )

    begins = point(suspects, "submitted_seq", "submitted_at", "from")
    ends = point(suspects, "until_seq", "until_at", "to")
    return point(turns, "seq", "at", "turn").unionAll(begins).unionAll(ends)
