"""Following the ledger: each micro-batch is one step, the same as that of a batch run.

A micro-batch only says that there is something new. The step takes it from the segments, from the
newest record of the tables on; so a batch that Spark repeats after a kill changes nothing.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from dragoman.pipeline.export import Export
from dragoman.pipeline.maintenance import retrying, upkeep
from dragoman.pipeline.places import place_of
from dragoman.pipeline.positions import note_position
from dragoman.pipeline.same_ledger import require_same_ledger
from dragoman.pipeline.snapshot import Snapshot, read_snapshot
from dragoman.pipeline.source import FORMAT
from dragoman.pipeline.step import advance
from dragoman.pipeline.storage import join
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tuning import tuned

#: Seconds between looks for new segments.
EVERY_SECONDS: Final = 2
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
        def step() -> TableStore:
            store, export = TableStore(records.sparkSession, root), Export(source)
            after = store.snapshot.seq
            ranges = export.after(after, after + most_rows)
            if ranges:
                with tuned(store.spark, ranges[-1].last - after + store.recent_rows()):
                    advance(store, export, ranges)
                store.forget_old_copies()
            return store

        store = retrying(root, step)
        note_position(source, root, store.snapshot.seq)
        notice(store.snapshot)
        upkeep(store)

    reader = spark.readStream.format(FORMAT).option("maxRows", most_rows)
    former = read_snapshot(root)
    require_same_ledger(Export(source), root, former)
    note_position(source, root, former.seq)
    reader = reader.option("after", former.seq)
    writer = reader.load(source).writeStream.foreachBatch(apply)
    # Without copies, this is the folder itself. With them the offsets end with the process, and
    # the next stream begins after the newest record in the tables.
    place = place_of(spark, checkpoint or join(root, "checkpoint"))
    writer = writer.option("checkpointLocation", place.base)
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every} seconds").start()
