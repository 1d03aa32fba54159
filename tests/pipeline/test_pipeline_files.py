"""Parquet files of a table, through pyarrow."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from dragoman.pipeline.delta import list_files
from dragoman.pipeline.files import arrow_schema, read_files, write_rows
from dragoman.pipeline.schema import columns

SCHEMA = columns("""
    name string
    at timestamp
    tags counts
    day date
""")
MON = date(2026, 1, 5)
NOW = datetime(2026, 1, 5, 12, 0, 0, 5, UTC)


def test_written_rows_are_read_again_one_file_for_each_day(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"name": "settled", "at": NOW, "tags": [("x", 1)], "day": MON},
        {"name": "open", "at": None, "tags": [], "day": None},
    ]
    table = pa.Table.from_pylist(rows, arrow_schema(SCHEMA))
    write_rows(str(tmp_path), "t", "write-1", table)
    files = list_files(str(tmp_path / "t"), "write-1")
    assert {file.day for file in files.values()} == {MON, None}
    found = read_files(str(tmp_path), "t", SCHEMA, files.values()).to_pylist()
    assert sorted(found, key=lambda row: str(row["name"]), reverse=True) == rows


def test_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(
        [{"name": "a", "day": MON}], arrow_schema(columns("name string\nday date"))
    )
    write_rows(str(tmp_path), "t", "write-1", table)
    files = list_files(str(tmp_path / "t"), "write-1").values()
    (row,) = read_files(str(tmp_path), "t", SCHEMA, files).to_pylist()
    assert row == {"name": "a", "at": None, "tags": None, "day": MON}
