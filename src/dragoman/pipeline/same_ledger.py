"""Refuses an export of another ledger: its records would be mixed with those of the tables.

A manifest does not name its ledger. So one record is compared: the newest that both have. An export
that no longer has it, because `sealed_days` removed it, is not compared.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from dragoman.pipeline.delta import DeltaLog
from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import (
    ExportedSegment,
    OtherLedger,
    SegmentRange,
    head,
    plan,
)
from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.storage import join, open_filesystem

if TYPE_CHECKING:
    import pyarrow as pa

#: The table with all records.
_EVENTS: Final = "events"
#: What two ledgers hardly have in common at one position. Every release has these columns.
_COMPARED: Final = ("seq", "at", "kind", "job", "service", "client", "worker", "peer")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Values = tuple[Any, ...]


def new_ranges(export: Export, root: str, snapshot: Snapshot) -> list[SegmentRange]:
    """Plan what to read so that tables get every record; raises OtherLedger and SegmentMissing."""
    segments = export.segments()
    _require_same(export, segments, root, snapshot)
    return plan(segments, snapshot.seq)


def require_same_ledger(export: Export, root: str, snapshot: Snapshot) -> None:
    """Raise OtherLedger if tables and export are of two ledgers. A stream may meet a gap later."""
    _require_same(export, export.segments(), root, snapshot)


def _require_same(
    export: Export, segments: Sequence[ExportedSegment], root: str, snapshot: Snapshot
) -> None:
    if head(segments) == snapshot.seq:
        return
    seq = min(snapshot.seq, head(segments))
    holder = next((each for each in segments if each.first <= seq <= each.last), None)
    if holder is None or _EVENTS not in snapshot.tables:
        return
    try:
        here = _records(join(export.path, holder.file), seq)
    except (OSError, ValueError):
        return  # a segment that was read before; those that are needed are checked as a whole
    if here and not here & _recorded(root, snapshot.tables[_EVENTS], seq, here):
        raise OtherLedger(
            f"the tables at {root} are of another ledger: their record {seq:,} is not that of "
            f"{export.path}. The tables are unchanged; choose another folder for the tables"
        )


def _recorded(root: str, version: int, seq: int, like: set[Values]) -> set[Values]:
    """Return the records of the tables with a number, on the days of some others."""
    log = DeltaLog(join(root, _EVENTS))
    days = {(_EPOCH + timedelta(microseconds=values[1])).date() for values in like}
    paths = [file.path for file in log.files(version).values() if file.day in days]
    return set().union(*(_records(join(log.uri, path), seq) for path in paths))


def _records(uri: str, seq: int) -> set[Values]:
    """Return the records of a file with a number: one, unless the ledger is broken."""
    import pyarrow.parquet as pq

    system, path = open_filesystem(uri)
    with pq.ParquetFile(path, filesystem=system) as file:
        column = file.schema_arrow.names.index("seq")
        groups = [
            group
            for group in range(file.num_row_groups)
            if _may_have(file.metadata.row_group(group).column(column).statistics, seq)
        ]
        return _values(file.read_row_groups(groups, columns=[*_COMPARED]), seq)


def _may_have(statistics: Any, seq: int) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= seq <= statistics.max)


def _values(rows: "pa.Table", seq: int) -> set[Values]:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = rows.filter(pc.equal(rows["seq"], pa.scalar(seq)))
    instants = found["at"].cast(pa.int64())
    found = found.set_column(found.schema.get_field_index("at"), "at", instants)
    return {tuple(row[name] for name in _COMPARED) for row in found.to_pylist()}
