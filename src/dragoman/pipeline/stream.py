"""Following the ledger: each micro-batch is one step, the same as that of a batch run.

If the process is killed after a step was committed, Spark repeats the micro-batch. Its sequence
numbers are in the tables already, so it changes nothing.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dragoman.pipeline.export import Export
from dragoman.pipeline.maintenance import retrying, upkeep
from dragoman.pipeline.manifest import head
from dragoman.pipeline.positions import note_position
from dragoman.pipeline.snapshot import Snapshot, read_snapshot
from dragoman.pipeline.source import FORMAT
from dragoman.pipeline.step import advance
from dragoman.pipeline.storage import join, spark_uri
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tuning import tuned

#: Seconds between looks for new segments.
EVERY_SECONDS: Final = 10
#: Most records in one micro-batch: bounds the memory of a stream that is far behind.
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
    """Start to follow an export; the caller awaits or stops the query.

    Args:
        spark: The session.
        source: The export's folder.
        root: The folder of the tables.
        checkpoint: The folder of Spark's offsets; by default inside that of the tables.
        every: Seconds between looks; None: stop after the current segments.
        most_rows: Most records in one micro-batch.
        notice: Called after every step.

    """

    def apply(records: DataFrame, batch: int) -> None:
        def step() -> Snapshot:
            store = TableStore(records.sparkSession, root)
            fresh = min(head(Export(source).segments()) - store.snapshot.seq, most_rows)
            with tuned(store.spark, fresh + store.recent_rows()):
                return advance(store, records, None)

        done = retrying(root, step)
        note_position(source, root, done.seq)
        upkeep(root, done)
        notice(done)

    reader = spark.readStream.format(FORMAT).option("maxRows", most_rows)
    after = read_snapshot(root).seq
    note_position(source, root, after)
    reader = reader.option("after", after)
    writer = reader.load(source).writeStream.foreachBatch(apply)
    writer = writer.option("checkpointLocation", spark_uri(checkpoint or join(root, "checkpoint")))
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every} seconds").start()
