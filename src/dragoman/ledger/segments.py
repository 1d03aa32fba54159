"""Sealed segments: their schema, their names, and the manifest that lists them.

A segment is an immutable Parquet file with a gap-free range of records, sorted by `seq`. The
manifest is the contract with readers: they ignore files that it does not list. Both are written
under a temporary name, synced and renamed; then the directory is synced.

This module handles Arrow tables and files; it does not know the ledger.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.ledger.atomic_file import rename_durably
from dragoman.ledger.base import LedgerError
from dragoman.model.record import VERSION, Record
from dragoman.model.value import field, value

MANIFEST: Final = "manifest.json"
TEMPORARY: Final = ".tmp"
_NAMES: Final = tuple(each.name for each in fields(Record))
_INSTANTS: Final = tuple(each.name for each in fields(Record) if each.type is float)
_INSTANT: Final = pa.timestamp("us", tz="UTC")
_ARROW_TYPES: Final[dict[object, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
}
#: 9999-12-31, the last day that every reader supports; a later instant means "never".
_LAST_DAY: Final = pa.scalar(253_402_214_400.0)
_NOT_SET: Final = pa.scalar(0.0)
_MICROS: Final = pa.scalar(1e6)

#: Columns in the order of the record's fields. Instants that do not apply are null.
SEGMENT_SCHEMA: Final = pa.schema(
    [
        pa.field(
            each.name,
            _INSTANT if each.name in _INSTANTS else _ARROW_TYPES[each.type],
            nullable=each.name in _INSTANTS[1:],
        )
        for each in fields(Record)
    ]
)


@value
class SealedSegment:
    """One entry of the manifest."""

    file: str  #: name, beside the manifest
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str
    min_at: float
    max_at: float
    schema_version: int = VERSION


@value
class Manifest:
    """Every sealed segment, in order, without gaps between them."""

    version: int = 1
    segments: list[SealedSegment] = field(default_factory=list)

    @property
    def first(self) -> int:
        """The oldest record of a segment; 0 if there is none."""
        return self.segments[0].first if self.segments else 0

    @property
    def last(self) -> int:
        """The newest sealed record; 0 if there is none."""
        return self.segments[-1].last if self.segments else 0


def segment_name(first: int, last: int) -> str:
    """Return the file name of a segment; names sort as their records do."""
    return f"seg-{first:020d}-{last:020d}.parquet"


def to_batch(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    """Convert rows in field order to columns."""
    columns = [
        _column(values, schema)
        for values, schema in zip(zip(*rows, strict=True), SEGMENT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SEGMENT_SCHEMA)


def load_libraries() -> None:
    """Have the Parquet library load all that it needs to write a segment.

    It loads the rest of itself, numpy and pandas when it converts the first values. At the stop
    of a broker that is too late: there may be no file descriptor left.
    """
    rows = [tuple(getattr(Record(n, 1.0 + n, str(n)), name) for name in _NAMES) for n in (1, 2)]
    table = pa.Table.from_batches([to_batch(rows)])
    pq.write_table(table, pa.BufferOutputStream(), compression="zstd")
    pc.min(table["at"].cast(pa.int64())).as_py()


def write_segment(
    directory: Path, batches: Sequence[pa.RecordBatch], step: Callable[[str], None]
) -> SealedSegment:
    """Write one segment durably; `step` is called before each step (for tests)."""
    table = pa.Table.from_batches(list(batches), schema=SEGMENT_SCHEMA)
    first, last = table["seq"][0].as_py(), table["seq"][-1].as_py()
    path = directory / segment_name(first, last)
    draft = path.with_name(path.name + TEMPORARY)
    step("write segment")
    pq.write_table(table, draft, compression="zstd", sorting_columns=[pq.SortingColumn(0)])
    rename_durably(draft, path, step)
    instants = table["at"].cast(pa.int64())
    return SealedSegment(
        path.name,
        first,
        last,
        table.num_rows,
        path.stat().st_size,
        hashlib.sha256(path.read_bytes()).hexdigest(),
        pc.min(instants).as_py() / 1e6,
        pc.max(instants).as_py() / 1e6,
    )


def check_segment(directory: Path, segment: SealedSegment) -> list[str]:
    """Return what is wrong with the file of a segment."""
    path = directory / segment.file
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return [f"{path}: records {segment.first} to {segment.last}: {error.strerror}"]
    if found != segment.sha256:
        return [f"{path}: records {segment.first} to {segment.last} do not match the manifest"]
    return []


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest; a missing one is empty."""
    path = directory / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise LedgerError(f"{path} is damaged: {error}; restore it from a copy") from None


def write_manifest(directory: Path, manifest: Manifest, step: Callable[[str], None]) -> None:
    """Replace the manifest atomically."""
    path = directory / MANIFEST
    draft = path.with_name(path.name + TEMPORARY)
    step("write manifest")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    rename_durably(draft, path, step)


def _column(values: tuple[Any, ...], schema: "pa.Field[Any]") -> "pa.Array[Any]":
    column: pa.Array[Any]
    if schema.name in _INSTANTS:
        return _instants(values, schema.nullable)
    if schema.type == pa.bool_():
        values = tuple(map(bool, values))
    # Most columns of a block hold one value; converting it once is faster.
    if values.count(values[0]) == len(values):
        column = pa.repeat(pa.scalar(values[0], schema.type), len(values))
    else:
        column = pa.array(values, schema.type)
    return column


def _instants(values: tuple[float, ...], is_nullable: bool) -> "pa.Array[Any]":
    seconds = pa.array(values, pa.float64())
    applies = pc.less(seconds, _LAST_DAY)
    if is_nullable:
        applies = pc.and_(applies, pc.greater(seconds, _NOT_SET))
    otherwise = pa.scalar(None, pa.float64()) if is_nullable else _LAST_DAY
    micros = pc.round(pc.multiply(pc.if_else(applies, seconds, otherwise), _MICROS))
    return pa.Array.from_buffers(_INSTANT, len(micros), micros.cast(pa.int64()).buffers())
