"""Who was kept waiting while others were served.

The broker lets clients take turns. So while a job that any worker may take is next of its
client's own, its service can make only so many dispatches for others. The bound is stated here:
more than `MOST_TURNS` is unfair, unless that many clients are waiting in turn.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.schema import is_kind

#: So many dispatches of a service for others, while a job is next of its client's, are too many.
MOST_TURNS: Final = 1_000


def suspects(ended: DataFrame, most: int = MOST_TURNS) -> DataFrame:
    """Select jobs with so many records between submission and first dispatch that it may be.

    There are at least as many records as dispatches, so no unfair wait is left out.
    """
    until = F.coalesce("started_seq", "ended_seq")
    may_go_anywhere = F.col("target").isin("any", "") & ~F.col("terms").contains('"needs"')
    waited = ended.where(may_go_anywhere & (until - F.col("submitted_seq") > most))
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
    """Count the turns of others while each suspect was next; return those that had too many.

    Args:
        suspects: What `suspects` selected.
        events: Records that reach back to the oldest submission among them.
        most: How many turns of others are fair.

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
    """Number the turns of each service; note the newest turn of the same client before."""
    order = ("seq", "is_turn")
    in_service = Window.partitionBy("service").orderBy(*order)
    in_service = in_service.rowsBetween(Window.unboundedPreceding, 0)
    of_client = Window.partitionBy("service", "client").orderBy(*order)
    of_client = of_client.rowsBetween(Window.unboundedPreceding, -1)
    counted = points.withColumn("turn", F.sum("is_turn").over(in_service))
    own = F.when(F.col("is_turn") == 1, F.struct("turn", "seq"))
    return counted.withColumn("own", F.max(own).over(of_client))


def _points(suspects: DataFrame, events: DataFrame) -> DataFrame:
    """Return the turns of the suspects' services, and where each wait begins and ends."""
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
