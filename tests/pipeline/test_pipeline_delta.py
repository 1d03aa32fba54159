import json
from datetime import date
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from dragoman.pipeline.delta import (
    APP,
    CHECKPOINT_EVERY,
    ConcurrentWriter,
    DeltaLog,
    Files,
    day_in,
    list_files,
)
from dragoman.pipeline.maintenance import KEEP_HOURS

SCHEMA: pa.Schema = pa.table({"name": ["a"], "day": [date(2026, 1, 5)]}).schema
MONDAY = date(2026, 1, 5)


def write(table: Path, attempt: str, day: date | None, *names: str) -> str:
    """Write one file as Spark would; return the folder of the attempt."""
    text = day.isoformat() if day else "__HIVE_DEFAULT_PARTITION__"
    folder = table / f"write-{attempt}" / f"day={text}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"name": pa.array(names, pa.string())}), folder / "p.parquet")
    return f"write-{attempt}"


def content(table: Path) -> list[tuple[str, date | None]]:
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted((row["name"], row["day"]) for row in rows)


def test_files_are_listed_with_day_size_and_rows_and_empty_ones_left_out(tmp_path: Path) -> None:
    write(tmp_path, "x", MONDAY, "a", "b")
    write(tmp_path, "x", None, "c")
    write(tmp_path, "x", date(2026, 1, 6))
    (tmp_path / "write-x" / "_SUCCESS").touch()
    found = list_files(str(tmp_path), "write-x")
    assert sorted((f.day, f.rows) for f in found.values() if f.day) == [(MONDAY, 2)]
    assert [f.rows for f in found.values() if f.day is None] == [1]
    for file in found.values():
        assert (tmp_path / file.path).stat().st_size == file.size
    assert list_files(str(tmp_path), "write-none") == {}


def test_a_version_is_exactly_the_files_that_were_committed(tmp_path: Path) -> None:
    log = DeltaLog(str(tmp_path))
    one = list_files(str(tmp_path), write(tmp_path, "one", MONDAY, "a"))
    two = list_files(str(tmp_path), write(tmp_path, "two", None, "b"))
    assert log.commit(one, SCHEMA, 10) == 0
    assert log.commit({**one, **two}, SCHEMA, 20) == 1
    assert log.commit(two, SCHEMA, 30) == 2
    assert content(tmp_path) == [("b", None)]
    assert log.files(1) == {**one, **two}
    newest = log.open()
    assert newest is not None
    assert newest.transaction_version(APP) == 30
    # Nothing to change makes no version.
    assert log.commit(two, SCHEMA, 40) == 2


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    assert DeltaLog(str(tmp_path)).commit({}, SCHEMA, 1) == 0
    assert pl.read_delta(str(tmp_path)).schema == {"name": pl.String, "day": pl.Date}


def test_a_rival_that_read_the_same_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DeltaLog(str(tmp_path))
    one = list_files(str(tmp_path), write(tmp_path, "one", MONDAY, "a"))
    log.commit(one, SCHEMA, 1)
    two = list_files(str(tmp_path), write(tmp_path, "two", MONDAY, "b"))
    old = log.open()
    log.commit({**one, **two}, SCHEMA, 2)
    rival = DeltaLog(str(tmp_path))
    monkeypatch.setattr(rival, "open", lambda: old)
    three = list_files(str(tmp_path), write(tmp_path, "three", MONDAY, "c"))
    with pytest.raises(ConcurrentWriter, match="another writer changed"):
        rival.commit(three, SCHEMA, 2)
    assert content(tmp_path) == [("a", MONDAY), ("b", MONDAY)]


def test_two_that_create_a_table_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = list_files(str(tmp_path), write(tmp_path, "one", MONDAY, "a"))
    DeltaLog(str(tmp_path)).commit(one, SCHEMA, 1)
    rival = DeltaLog(str(tmp_path))
    answers = [None, DeltaTable(str(tmp_path))]
    monkeypatch.setattr(rival, "open", lambda: answers.pop(0))
    with pytest.raises(ConcurrentWriter):
        rival.commit({}, SCHEMA, 1)
    assert content(tmp_path) == [("a", MONDAY)]


def test_readers_of_a_long_log_begin_at_a_checkpoint(tmp_path: Path) -> None:
    log = DeltaLog(str(tmp_path))
    files: Files = {}
    for n in range(2 * CHECKPOINT_EVERY + 3):
        files = {**files, **list_files(str(tmp_path), write(tmp_path, str(n), MONDAY, f"{n}"))}
        assert log.commit(files, SCHEMA, n + 1) == n
    last = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == 2 * CHECKPOINT_EVERY
    # What the checkpoint sums up need not be there to read the newest version.
    for n in range(2 * CHECKPOINT_EVERY):
        (tmp_path / "_delta_log" / f"{n:020}.json").unlink()
    assert log.files(2 * CHECKPOINT_EVERY + 2) == files


def test_the_log_is_kept_as_long_as_the_files_of_old_versions(tmp_path: Path) -> None:
    log = DeltaLog(str(tmp_path))
    log.commit({}, SCHEMA, 1)
    table = log.open()
    assert table is not None
    kept = table.metadata().configuration["delta.logRetentionDuration"]
    assert kept == f"interval {KEEP_HOURS // 24} days"


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("write-x/day=2026-01-05/p.parquet", MONDAY),
        ("write-x/day=__HIVE_DEFAULT_PARTITION__/p.parquet", None),
    ],
)
def test_the_day_is_read_from_the_path(path: str, day: date | None) -> None:
    assert day_in(path) == day
