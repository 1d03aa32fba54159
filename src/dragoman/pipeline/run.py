"""The batch run: read the new segments and update the tables."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from dragoman.pipeline.manifest import SegmentRange, plan
from dragoman.pipeline.segments import check_files, read_manifest, read_records
from dragoman.pipeline.step import advance
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tuning import tuned


@dataclass(frozen=True)
class RunSummary:
    """The result of a run."""

    #: The newest record in the tables before the run, and after it.
    after: int
    upto: int
    segments: int
    bytes: int
    seconds: float
    #: Rows written, by table.
    written: Mapping[str, int]

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

    If a record cannot be read, raises `SegmentMissing` or `SegmentDamaged` and changes nothing.
    """
    begun = time.monotonic()
    notice("manifest")
    store = TableStore(spark, root)
    after = store.snapshot.seq
    ranges = plan(read_manifest(spark, source), after)
    upto = ranges[-1].last if ranges else after
    if ranges:
        # By the whole history: even a small step reads its whole day.
        with tuned(spark, upto):
            notice("segments")
            check_files(spark, source, ranges)
            advance(store, read_records(spark, source, ranges), upto, notice)
    seconds = time.monotonic() - begun
    return RunSummary(after, upto, len(ranges), _size(ranges), seconds, store.written)


def _size(ranges: list[SegmentRange]) -> int:
    return sum(each.segment.bytes for each in ranges)
