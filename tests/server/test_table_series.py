"""Charts of any range, from the table of minutes that the pipeline writes."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.canary_watch import Canary
from tests.pipeline.object_store import BUCKET, object_store

from dragoman.server.table_series import (
    MOST_POINTS,
    TableRange,
    TableSeries,
    fold_minutes,
    storage_options,
)

deltalake = pytest.importorskip("deltalake")

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT = START.timestamp()


def minute(number: int, service: str = "math", **more: Any) -> dict[str, Any]:
    counts = {"submitted": 1, "succeeded": 1, "refused": 0, "ended": 1, "backlog": 0, "running": 0}
    times = dict.fromkeys(("queue_p50_us", "queue_p90_us", "run_p50_us", "run_p90_us"), 500_000)
    at = START + timedelta(minutes=number)
    return {"service": service, "dialect": "nfp", "minute": at, **counts, **times, **more}


@pytest.mark.parametrize(
    ("minutes", "step", "number"),
    [(10, 60, 10), (MOST_POINTS, 60, MOST_POINTS), (24 * 60, 480, 180), (7 * 24 * 60, 3360, 181)],
)
def test_a_range_has_a_bounded_number_of_steps(minutes: int, step: int, number: int) -> None:
    found = TableRange.covering(AT, AT + 60 * minutes)
    assert (found.step, found.number) == (step, number)


def test_minutes_are_summed_into_steps() -> None:
    rows = [minute(0), minute(1, succeeded=0, run_p50_us=2_500_000), minute(2, ended=0)]
    found = fold_minutes(rows, TableRange(int(AT), 120, 2))
    assert (found["submitted"], found["failed"]) == ([2, 1], [1, -1])
    assert found["p50"] == [2.0, 0.0]


def test_a_level_lasts_until_its_service_changes_it() -> None:
    rows = [minute(0, backlog=5), minute(0, "mail", backlog=2), minute(2, backlog=1)]
    found = fold_minutes(rows, TableRange(int(AT), 60, 4))
    assert found["waiting"] == [7, 7, 3, 3]


def test_rows_outside_the_range_do_not_count() -> None:
    found = fold_minutes([minute(-1), minute(9)], TableRange(int(AT), 60, 2))
    assert found["submitted"] == [0, 0]


def write_tables(root: str, rows: list[dict[str, Any]]) -> None:
    days = [{**row, "day": row["minute"].date()} for row in rows]
    table, how = f"{root}/service_minutes", {"storage_options": storage_options(root)}
    deltalake.write_deltalake(table, pa.Table.from_pylist(days), partition_by=["day"], **how)
    # A later write that no step has: it does not count.
    deltalake.write_deltalake(table, pa.Table.from_pylist(days), mode="append", **how)
    row = {"seq": 9, "horizon": START + timedelta(hours=1), "versions": [("service_minutes", 0)]}
    versions = pa.map_(pa.string(), pa.int64())
    instant = pa.timestamp("us", tz="UTC")
    schema = pa.schema([("seq", pa.int64()), ("horizon", instant), ("versions", versions)])
    deltalake.write_deltalake(f"{root}/steps", pa.Table.from_pylist([row], schema), **how)


def test_the_tables_are_read_as_of_their_newest_step(tmp_path: Path) -> None:
    yesterday = minute(-24 * 60)
    write_tables(str(tmp_path), [minute(0), minute(5), yesterday])
    found = TableSeries(str(tmp_path)).read(AT, AT + 600)
    assert found["submitted"] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert found["horizon"] == (START + timedelta(hours=1)).timestamp()
    assert yesterday["minute"].date() == date(2025, 12, 31)


def test_a_folder_without_tables_says_so(tmp_path: Path) -> None:
    found = TableSeries(f"file://{tmp_path}/")
    assert not found.is_there
    assert "no tables" in str(found.read(AT, AT + 60)["trouble"])


def test_http_is_allowed_only_for_an_endpoint_that_speaks_it() -> None:
    assert storage_options("/data/tables", {}) is None
    assert "allow_http" not in (storage_options("s3://b/t", {}) or {})
    found = storage_options("s3://b/t", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    assert (found or {})["allow_http"] == "true"


@pytest.mark.process
def test_tables_on_object_storage_are_read_and_trouble_with_them_is_said(
    tmp_path: Path, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_store(tmp_path) as environment:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", canary("password"))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        root = f"s3://{BUCKET}/tables"
        write_tables(root, [minute(0), minute(5), minute(-24 * 60)])
        found = TableSeries(root).read(AT, AT + 600)
        missing = TableSeries(f"s3://{BUCKET}/none").read(AT, AT + 600)
    assert found["submitted"] == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert f"cannot read the tables at s3://{BUCKET}/none. Look at" in str(missing["trouble"])
