"""Bronze without rewriting: segments become files of `events`, whichever engine does the rest.

A segment is copied byte for byte, after its checksum was compared, if all its records are new and
of one UTC day and none is missing or repeated. Of any other segment the new records are written
again: each number once, with exactly the columns of a record, one file for each day.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.pipeline import events
from dragoman.pipeline.export import Export
from dragoman.pipeline.files import arrow_schema, write_rows
from dragoman.pipeline.manifest import SegmentMissing, SegmentRange
from dragoman.pipeline.schema import RECORD
from dragoman.pipeline.snapshot import instant
from dragoman.pipeline.storage import join, write_bytes
from dragoman.pipeline.table_state import StepState

_COLUMNS: Final = arrow_schema(RECORD)
_GAPS: Final = pa.schema([("first", pa.int64()), ("last", pa.int64())])
_REPEATS: Final = pa.schema(
    [("seq", pa.int64()), ("times", pa.int64()), ("at", _COLUMNS.field("at").type)]
)
#: Segments in work at a time; hashing and decoding do not hold the interpreter.
_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Arrival:
    """What a step knows of its new records before it plans."""

    earliest: datetime
    latest: datetime
    #: The ranges of numbers without a record: `first`, `last`.
    gaps: pa.Table
    #: The numbers of more than one record: `seq`, `times`, and the first instant `at`.
    repeats: pa.Table


@dataclass(frozen=True)
class _Piece:
    """The same of one segment. Instants are in microseconds; without records there are none."""

    instants: tuple[int, int] | None
    gaps: pa.Table
    repeats: pa.Table


def write_events(step: StepState, export: Export, ranges: Sequence[SegmentRange]) -> Arrival:
    """Check the segments of a plan and write their new records; raises `SegmentError`."""
    folder = step.folder(events.TABLE)

    def write(wanted: SegmentRange) -> _Piece:
        return _write(export, wanted, step.state.root, folder)

    with ThreadPoolExecutor(_AT_ONCE, "dragoman-bronze") as pool:
        pieces = [*pool.map(write, ranges)]
    step.take(events.TABLE, step.settled(events.TABLE), folder, arrow_schema(events.SCHEMA))
    found = [piece.instants for piece in pieces if piece.instants]
    if not found:
        first, last = ranges[0].after + 1, ranges[-1].last
        raise SegmentMissing("the segments have no records", first, last)
    return Arrival(
        instant(min(earliest for earliest, _ in found)),
        instant(max(latest for _, latest in found)),
        pa.concat_tables(piece.gaps for piece in pieces),
        pa.concat_tables(piece.repeats for piece in pieces),
    )


def _write(export: Export, wanted: SegmentRange, root: str, folder: str) -> _Piece:
    data = export.read(wanted.segment)
    file = pq.ParquetFile(pa.BufferReader(data))
    name = f"seg-{wanted.after + 1:020d}-{wanted.last:020d}.parquet"
    if _has_all_columns(file.schema_arrow):
        rows = file.read(["seq", "at"])
        if _is_complete(rows["seq"], wanted) and (day := _only_day(rows["at"])):
            write_bytes(join(root, events.TABLE, folder, f"day={day}", name), data)
            return _Piece(_edges(rows["at"]), _GAPS.empty_table(), _REPEATS.empty_table())
    rows = _typed(file.read())
    is_after = pc.greater(rows["seq"], pa.scalar(wanted.after))
    is_new = pc.and_(is_after, pc.less_equal(rows["seq"], pa.scalar(wanted.last)))
    rows = rows.filter(is_new)
    once = _without_repeats(rows)
    days = once["at"].cast(pa.timestamp("us")).cast(pa.date32())
    if len(once):
        write_rows(root, events.TABLE, folder, once.append_column("day", days), name)
    return _Piece(_edges(rows["at"]), _gaps(rows["seq"], wanted), _repeats(rows))


def _has_all_columns(found: pa.Schema) -> bool:
    """Whether a file has the columns of a record, and no others."""
    return {f.name: f.type for f in found} == {f.name: f.type for f in _COLUMNS}


def _edges(instants: "pa.ChunkedArray[Any]") -> tuple[int, int] | None:
    """Return the first and the last instant, if there are any."""
    micros = instants.cast(pa.int64())
    first, last = pc.min(micros).as_py(), pc.max(micros).as_py()
    return None if first is None or last is None else (first, last)


def _only_day(instants: "pa.ChunkedArray[Any]") -> date | None:
    """Return the UTC day of all instants, if it is one."""
    edges = _edges(instants)
    days = {instant(edge).date() for edge in edges or ()}
    return days.pop() if len(days) == 1 and not instants.null_count else None


def _is_complete(seq: "pa.ChunkedArray[Any]", wanted: SegmentRange) -> bool:
    """Whether these are the wanted numbers, each once and in order."""
    if len(seq) != wanted.last - wanted.after or seq[0].as_py() != wanted.after + 1:
        return False
    return bool(pc.all(pc.equal(_steps(seq), pa.scalar(1)), min_count=0).as_py())


def _steps(seq: "pa.ChunkedArray[Any]") -> "pa.Array[Any]":
    """Return the differences of neighbours."""
    whole = seq.combine_chunks()
    found: pa.Array[Any] = pc.subtract(whole[1:], whole[:-1])
    return found


def _typed(rows: pa.Table) -> pa.Table:
    """Return exactly the columns of a record; those that an older segment lacks are null."""
    known = set(rows.schema.names)
    columns = [
        rows[f.name].cast(f.type) if f.name in known else pa.nulls(len(rows), f.type)
        for f in _COLUMNS
    ]
    return pa.table(columns, schema=_COLUMNS)


def _without_repeats(rows: pa.Table) -> pa.Table:
    """Keep the smallest record of each number, by its columns in order; null is smallest."""
    if pc.count_distinct(rows["seq"]).as_py() == len(rows):
        return rows.sort_by("seq")
    columns = [each for column in rows.columns for each in (pc.is_valid(column), column)]
    names = [str(n) for n in range(len(columns))]
    keys: list[tuple[str, Literal["ascending"]]] = [(name, "ascending") for name in names]
    rows = rows.take(pc.sort_indices(pa.table(columns, names), sort_keys=keys))
    is_first = pc.not_equal(_steps(rows["seq"]), pa.scalar(0))
    return rows.filter(pa.concat_arrays([pa.array([True]), is_first]))


def _gaps(seq: "pa.ChunkedArray[Any]", wanted: SegmentRange) -> pa.Table:
    known = pa.table({"seq": pc.unique(seq.combine_chunks())}).sort_by("seq")["seq"]
    edges = (pa.array([wanted.after]), pa.array([wanted.last + 1]))
    numbers = pa.concat_arrays([edges[0], known.combine_chunks(), edges[1]])
    holes = pa.table(
        [pc.add(numbers[:-1], pa.scalar(1)), pc.subtract(numbers[1:], pa.scalar(1))], schema=_GAPS
    )
    return holes.filter(pc.less_equal(holes["first"], holes["last"]))


def _repeats(rows: pa.Table) -> pa.Table:
    counted = rows.group_by("seq").aggregate([([], "count_all"), ("at", "min")])
    found = counted.select(["seq", "count_all", "at_min"]).rename_columns(_REPEATS.names)
    return found.filter(pc.greater(found["times"], pa.scalar(1))).cast(_REPEATS)
