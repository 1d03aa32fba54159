"""Batch runs and streams without Spark, for small ledgers on one machine."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from dragoman.pipeline.embedded.step import advance_embedded
from dragoman.pipeline.export import Export
from dragoman.pipeline.maintenance import retrying, upkeep
from dragoman.pipeline.manifest import SegmentRange
from dragoman.pipeline.positions import note_position
from dragoman.pipeline.run import RunSummary
from dragoman.pipeline.same_ledger import require_same_ledger
from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.table_state import TableState

Notice = Callable[[str], None]
#: New records, and records of the current day, up to which a run needs no Spark.
MOST_NEW: Final = 500_000
MOST_RECENT: Final = 2_000_000


def is_embedded(root: str, pending: int) -> bool:
    """Whether a run of so many new records is done here rather than by Spark."""
    return pending <= MOST_NEW and TableState(root).recent_rows() <= MOST_RECENT


def run_embedded(
    source: str, root: str, notice: Notice = lambda _: None, most_rows: int | None = None
) -> RunSummary:
    """Update the tables under `root` with the new segments of an export, as `pipeline.run` does.

    Args:
        source: The export.
        root: The folder or URL of the tables.
        notice: Called with the name of each stage.
        most_rows: Most new records; whole segments, at least one.

    """
    state = TableState(root)
    require_same_ledger(Export(source), root, state.snapshot)
    return run_on(state, source, notice, most_rows)


def run_on(
    state: TableState, source: str, notice: Notice = lambda _: None, most_rows: int | None = None
) -> RunSummary:
    """Do the same with tables whose state is known, so that not every log is read again."""
    return retrying(state.root, lambda: _run(source, state, notice, most_rows))


def _run(source: str, state: TableState, notice: Notice, most_rows: int | None) -> RunSummary:
    begun, root = time.monotonic(), state.root
    notice("manifest")
    state.refresh()
    export, after = Export(source), state.snapshot.seq
    note_position(source, root, after)
    ranges = _first(export.after(after), after, most_rows)
    if not ranges:
        return RunSummary(after, after, seconds=time.monotonic() - begun)
    upto = ranges[-1].last
    advance_embedded(state, export, ranges, notice)
    note_position(source, root, upto)
    upkeep(state)
    size = sum(each.segment.bytes for each in ranges)
    seconds = time.monotonic() - begun
    return RunSummary(after, upto, len(ranges), size, seconds, state.written)


def follow(
    source: str,
    root: str,
    *,
    every: float | None,
    most_rows: int = MOST_NEW,
    notice: Callable[[Snapshot], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Follow an export: a step whenever there is something new.

    The position is that of the tables, so there is no checkpoint.

    Args:
        source: The export.
        root: The folder or URL of the tables.
        every: Seconds between looks; None: stop after the current segments.
        most_rows: Most records in one step; whole segments, at least one.
        notice: Called after every step.
        wait: Waits so many seconds; the test of a stream gives its own.

    """
    state = TableState(root)
    # Once: the ledger of an export does not change, and a step reads few logs.
    require_same_ledger(Export(source), root, state.snapshot)
    while True:
        while run_on(state, source, most_rows=most_rows).segments:
            notice(state.snapshot)
        if every is None:
            return
        wait(every)


def _first(
    ranges: Sequence[SegmentRange], after: int, most_rows: int | None
) -> Sequence[SegmentRange]:
    """Return the first ranges of at most so many records, but at least one."""
    within = [each for each in ranges if most_rows is None or each.last - after <= most_rows]
    return within or ranges[:1]
