"""The batch run: read the new segments and update the tables."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from dragoman.pipeline.export import Export
from dragoman.pipeline.maintenance import retrying, upkeep
from dragoman.pipeline.positions import note_position
from dragoman.pipeline.same_ledger import new_ranges
from dragoman.pipeline.step import advance
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tuning import tuned


@dataclass(frozen=True)
class RunSummary:
    """The result of a run."""

    #: The newest record in the tables before the run, and after it.
    after: int
    upto: int
    segments: int = 0
    bytes: int = 0
    seconds: float = 0.0
    #: Rows written, by table.
    written: Mapping[str, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """The number of sequence numbers that the run covered."""
        return self.upto - self.after

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds else 0.0


def run(
    spark: SparkSession,
    source: str,
    root: str,
    notice: Callable[[str], None] = lambda _: None,
) -> RunSummary:
    """Update the tables under `root` with all new segments of an export.

    If a record cannot be read, raises `SegmentMissing` or `SegmentDamaged` and changes nothing. If
    another writer commits first, the run is repeated for what is then still new.
    """
    return retrying(root, lambda: _run(spark, source, root, notice))


def _run(spark: SparkSession, source: str, root: str, notice: Callable[[str], None]) -> RunSummary:
    begun = time.monotonic()
    notice("manifest")
    store, export = TableStore(spark, root), Export(source)
    after = store.snapshot.seq
    ranges = new_ranges(export, root, store.snapshot)
    note_position(source, root, after)
    if not ranges:
        return RunSummary(after, after, seconds=time.monotonic() - begun)
    upto = ranges[-1].last
    with tuned(spark, upto - after + store.recent_rows()):
        advance(store, export, ranges, notice)
    store.forget_old_copies()
    note_position(source, root, upto)
    upkeep(store)
    size = sum(each.segment.bytes for each in ranges)
    seconds = time.monotonic() - begun
    return RunSummary(after, upto, len(ranges), size, seconds, store.written)
