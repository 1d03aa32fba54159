"""Following the ledger: the same step as a batch run, once for every micro-batch.

A micro-batch that was applied before the process was killed is recognised by its sequence
numbers and changes nothing, so a stream may be killed and restarted at any moment.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.source import FORMAT
from dragoman.pipeline.step import advance
from dragoman.pipeline.store import TableStore

#: How often a stream looks for new segments: with the time a step takes, its freshness.
EVERY_SECONDS: Final = 10
#: Most records in one micro-batch, so that one which is far behind stays in bounds.
MOST_ROWS: Final = 2_000_000


def stream(
    spark: SparkSession,
    source: str,
    root: str,
    *,
    checkpoint: str | None = None,
    every: int | None = EVERY_SECONDS,
    most_rows: int = MOST_ROWS,
    notice: Callable[[Snapshot], None] = lambda _: None,
) -> StreamingQuery:
    """Start to follow an export; the caller waits for the query, or stops it.

    Args:
        spark: The session.
        source: The export's folder.
        root: Where the tables are.
        checkpoint: Where Spark keeps the offsets; beside the tables if not said.
        every: Seconds between looks; None reads what there is now and ends.
        most_rows: Most records in one micro-batch.
        notice: Called after every step.

    """

    def apply(records: DataFrame, batch: int) -> None:
        store = TableStore(records.sparkSession, root)
        notice(advance(store, records, None))

    reader = spark.readStream.format(FORMAT).option("maxRows", most_rows)
    reader = reader.option("after", TableStore(spark, root).snapshot.seq)
    writer = reader.load(source).writeStream.foreachBatch(apply)
    writer = writer.option("checkpointLocation", checkpoint or f"{root.rstrip('/')}/checkpoint")
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every} seconds").start()
