"""The batch run: read what is new, bring the tables up to date, say what was done."""

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
    """What a run did."""

    #: The newest record that was in the tables before, and the newest that is now.
    after: int
    upto: int
    segments: int
    bytes: int
    seconds: float
    #: How many rows were written of each table.
    written: Mapping[str, int]

    @property
    def records(self) -> int:
        """How many numbers of the ledger the run went through."""
        return self.upto - self.after

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds if self.seconds else 0.0


def run(
    spark: SparkSession,
    source: str,
    root: str,
    notice: Callable[[str], None] = lambda _: None,
) -> RunSummary:
    """Bring the tables under `root` up to the newest segment of an export.

    Raises `SegmentMissing` or `SegmentDamaged`, and changes nothing, if a record cannot be read.
    """
    begun = time.monotonic()
    notice("manifest")
    store = TableStore(spark, root)
    after = store.snapshot.seq
    pieces = plan(read_manifest(spark, source), after)
    upto = pieces[-1].last if pieces else after
    if pieces:
        # A small step over a long history still reads the whole of its day.
        with tuned(spark, upto):
            notice("segments")
            check_files(spark, source, pieces)
            advance(store, read_records(spark, source, pieces), upto, notice)
    seconds = time.monotonic() - begun
    return RunSummary(after, upto, len(pieces), _size(pieces), seconds, store.written)


def _size(pieces: list[SegmentRange]) -> int:
    return sum(piece.segment.bytes for piece in pieces)
