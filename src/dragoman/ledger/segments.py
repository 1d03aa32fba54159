"""Sealed segments: their schema, and how rows become a Parquet file.

A segment is an immutable Parquet file with a gap-free range of records, sorted by `seq`. It is
written under a temporary name, synced and renamed; then the directory is synced.

This module handles Arrow tables and files; it does not know the ledger. It loads the Parquet
library, which takes 80 MB, so a running broker does not import it.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dragoman.ledger.atomic_file import rename_durably
from dragoman.ledger.manifest import TEMPORARY, SealedSegment, segment_name
from dragoman.model.record import Record

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


def to_batch(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    """Convert rows in field order to columns."""
    columns = [
        _column(values, schema)
        for values, schema in zip(zip(*rows, strict=True), SEGMENT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SEGMENT_SCHEMA)


def write_segment(
    directory: Path, batches: Sequence[pa.RecordBatch], step: Callable[[str], None]
) -> SealedSegment:
    """Write one segment durably; `step` is called before each step (for tests)."""
    step("write segment")
    draft, segment = write_draft(directory, batches)
    rename_durably(draft, directory / segment.file, step)
    return segment


def write_draft(directory: Path, batches: Sequence[pa.RecordBatch]) -> tuple[Path, SealedSegment]:
    """Write a segment under a name that no other process uses; return the file and its entry."""
    table = pa.Table.from_batches(list(batches), schema=SEGMENT_SCHEMA)
    first, last = table["seq"][0].as_py(), table["seq"][-1].as_py()
    name = segment_name(first, last)
    draft = directory / f"{name}.{os.getpid()}{TEMPORARY}"
    pq.write_table(table, draft, compression="zstd", sorting_columns=[pq.SortingColumn(0)])
    instants = table["at"].cast(pa.int64())
    return draft, SealedSegment(
        name,
        first,
        last,
        table.num_rows,
        draft.stat().st_size,
        hashlib.sha256(draft.read_bytes()).hexdigest(),
        pc.min(instants).as_py() / 1e6,
        pc.max(instants).as_py() / 1e6,
    )


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
