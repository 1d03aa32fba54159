"""Segments and the manifest."""

import hashlib
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.ledger.entries import record, varied

from dragoman.ledger.atomic_file import no_step_hook
from dragoman.ledger.manifest import (
    segment_name,
)
from dragoman.ledger.rows import to_row
from dragoman.ledger.segments import SEGMENT_SCHEMA, to_batch, write_segment
from dragoman.model.record import Record


def test_the_schema_is_the_record_with_instants_as_timestamps() -> None:
    assert SEGMENT_SCHEMA.names == [each.name for each in fields(Record)]
    instants = [f.name for f in SEGMENT_SCHEMA if f.type == pa.timestamp("us", tz="UTC")]
    assert instants == ["at", "submitted_at", "deadline_at"]
    assert [f.name for f in SEGMENT_SCHEMA if f.nullable] == ["submitted_at", "deadline_at"]
    assert SEGMENT_SCHEMA.field("strict").type == pa.bool_()
    assert SEGMENT_SCHEMA.field("seq").type == pa.int64()
    assert SEGMENT_SCHEMA.field("job").type == pa.string()


def test_rows_become_columns_with_the_same_content() -> None:
    records = [varied(1).record, replace(varied(2).record, strict=False, submitted_at=1.5)]
    columns = to_batch([to_row(each) for each in records]).to_pydict()
    for name in SEGMENT_SCHEMA.names:
        if not name.endswith("at"):
            assert columns[name] == [getattr(each, name) for each in records], name
    assert columns["at"] == [datetime.fromtimestamp(1001, UTC), datetime.fromtimestamp(1002, UTC)]
    assert columns["submitted_at"] == [None, datetime.fromtimestamp(1.5, UTC)]


def test_instants_keep_microseconds_and_those_that_do_not_apply_are_null() -> None:
    odd = [
        record(1, at=1_700_000_000.123456, deadline_at=float("inf")),
        record(2, at=float("inf"), deadline_at=0.0),
        record(3, at=0.0, deadline_at=1e300),
        record(4, at=5.0, deadline_at=1_700_000_000.000001),
    ]
    columns = to_batch([to_row(each) for each in odd]).to_pydict()
    assert columns["at"][0] == datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    assert columns["at"][1].year == 9999
    assert columns["at"][2] == datetime(1970, 1, 1, tzinfo=UTC)
    assert columns["deadline_at"][:3] == [None, None, None]
    assert columns["deadline_at"][3].microsecond == 1


def test_a_segment_is_described_by_what_was_written(tmp_path: Path) -> None:
    batches = [to_batch([to_row(varied(seq).record) for seq in half]) for half in ((5, 6), (7,))]
    segment = write_segment(tmp_path, batches, no_step_hook)
    path = tmp_path / segment.file
    assert segment.file == segment_name(5, 7)
    assert (segment.first, segment.last, segment.rows) == (5, 7, 3)
    assert (segment.min_at, segment.max_at) == (1005.0, 1007.0)
    assert segment.bytes == path.stat().st_size
    assert segment.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [each.name for each in tmp_path.iterdir()] == [segment.file]
    table = pq.read_table(path)
    assert table.schema == SEGMENT_SCHEMA
    assert table["seq"].to_pylist() == [5, 6, 7]
    metadata = pq.read_metadata(path)
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert list(metadata.row_group(0).sorting_columns) == [pq.SortingColumn(0)]
