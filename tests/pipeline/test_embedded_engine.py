import math
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from dragoman.pipeline.delta import list_files
from dragoman.pipeline.embedded.engine import DuckEngine, naive
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


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("count", [1, 2, 8, 54])
def test_a_share_lies_on_the_line_between_the_two_nearest_values(count: int, share: float) -> None:
    values = sorted((n * 7919) % 10_007 for n in range(count))
    place = (count - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    with DuckEngine() as engine:
        (found,) = engine.one(f"select share_of({values}, {share})")
    assert found == low + (high - low) * (place - math.floor(place))


def test_an_empty_list_has_no_share_and_names_are_counted_in_order() -> None:
    with DuckEngine() as engine:
        assert engine.one("select share_of([]::bigint[], 0.5)") == (None,)
        (found,) = engine.one("select map_entries(tally(['b', 'a', 'b']))")
    assert found == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]


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


def test_rows_get_the_types_of_their_table() -> None:
    with DuckEngine() as engine:
        engine.load("t", naive(pa.table({"at": pa.array([NOW], pa.timestamp("us", tz="UTC"))})))
        found = engine.typed("(select *, 'n' as name, map {} as tags, null as day from t)", SCHEMA)
    assert found.schema == arrow_schema(SCHEMA)
    assert found["at"].to_pylist() == [NOW]
