import os
import time
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.pipeline.test_pipeline_delta import SCHEMA, content, write

from dragoman.pipeline import maintenance
from dragoman.pipeline.delta import ConcurrentWriter, DeltaLog, list_files
from dragoman.pipeline.maintenance import compact, repair, retrying, vacuum
from dragoman.pipeline.snapshot import Snapshot, commit_snapshot, history, read_snapshot
from dragoman.pipeline.table_state import TableState

MONDAY, TUESDAY = date(2026, 1, 5), date(2026, 1, 6)


def step(root: Path, number: int, *names: str, day: date | None = MONDAY) -> Snapshot:
    """Append a file to the table `t` and commit the step."""
    former = read_snapshot(str(root))
    log = DeltaLog(str(root / "t"))
    known = log.files(former.tables["t"]) if former.tables else {}
    fresh = list_files(log.uri, write(root / "t", str(number), day, *names))
    version = log.commit({**known, **fresh}, SCHEMA, number)
    done = Snapshot(former.version + 1, number, None, {"t": version})
    commit_snapshot(str(root), former, done, "step")
    return done


def files(root: Path) -> int:
    return len(DeltaLog(str(root / "t")).files(read_snapshot(str(root)).tables["t"]))


def test_small_files_of_a_day_become_one_and_the_rows_stay(tmp_path: Path) -> None:
    for n in range(1, 4):
        step(tmp_path, n, f"row {n}")
    step(tmp_path, 4, "tuesday", day=TUESDAY)
    step(tmp_path, 5, "open", day=None)
    before = content(tmp_path / "t")
    assert compact(str(tmp_path)) == {"t": 2}
    assert files(tmp_path) == 3
    assert content(tmp_path / "t") == before
    assert [s.operation for s in history(str(tmp_path))][:2] == ["compact", "step"]
    assert read_snapshot(str(tmp_path)).seq == 5
    assert compact(str(tmp_path)) == {}


def test_a_run_merges_only_many_files(tmp_path: Path) -> None:
    for n in range(1, maintenance.MANY_FILES):
        step(tmp_path, n, "x")
        maintenance.upkeep(TableState(str(tmp_path)))
    assert files(tmp_path) == maintenance.MANY_FILES - 1
    step(tmp_path, maintenance.MANY_FILES, "x")
    state = TableState(str(tmp_path))
    maintenance.upkeep(state)
    assert files(tmp_path) == len(state.files("t")) == 1
    assert state.snapshot == read_snapshot(str(tmp_path))


def test_a_run_leaves_files_of_some_size_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(1, maintenance.MANY_FILES + 1):
        step(tmp_path, n, "x")
    monkeypatch.setattr(maintenance, "TINY_BYTES", 1)
    maintenance.upkeep(TableState(str(tmp_path)))
    assert files(tmp_path) == maintenance.MANY_FILES
    assert compact(str(tmp_path)) == {"t": maintenance.MANY_FILES - 1}


def test_files_stop_at_the_target_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(1, 7):
        step(tmp_path, n, f"row {n}")
    one = next(iter(DeltaLog(str(tmp_path / "t")).files(0).values())).size
    monkeypatch.setattr(maintenance, "TARGET_BYTES", 3 * one)
    assert compact(str(tmp_path)) == {"t": 4}
    assert files(tmp_path) == 2


def test_only_files_that_no_kept_step_uses_are_deleted(tmp_path: Path) -> None:
    for n in range(1, 4):
        step(tmp_path, n, f"row {n}")
    compact(str(tmp_path))
    orphan = tmp_path / "t" / write(tmp_path / "t", "killed", MONDAY, "never committed")
    assert vacuum(str(tmp_path))["t"] == 0
    wanted = vacuum(str(tmp_path), 0, dry_run=True)["t"]
    assert any(orphan.rglob("*.parquet"))
    assert vacuum(str(tmp_path), 0)["t"] == wanted == 4
    assert not any(orphan.rglob("*.parquet"))
    assert len(content(tmp_path / "t")) == 3
    newest = read_snapshot(str(tmp_path))
    assert DeltaLog(str(tmp_path / "t")).files(newest.tables["t"])


def test_an_old_file_is_kept_if_a_step_of_the_last_hours_used_it(tmp_path: Path) -> None:
    for n in range(1, 3):
        step(tmp_path, n, f"row {n}")
    long_ago = time.time() - 20 * 86_400
    orphan = tmp_path / "t" / write(tmp_path / "t", "killed", MONDAY, "never committed")
    for path in (tmp_path / "t").rglob("*.parquet"):
        os.utime(path, (long_ago, long_ago))
    compact(str(tmp_path))
    assert vacuum(str(tmp_path))["t"] == 1
    assert not any(orphan.rglob("*.parquet"))
    assert len(DeltaTable(str(tmp_path / "t"), version=1).to_pyarrow_table()) == 2


def test_a_deletion_spares_the_newest_step_even_if_a_lost_writer_removed_its_files(
    tmp_path: Path,
) -> None:
    step(tmp_path, 1, "wanted")
    DeltaLog(str(tmp_path / "t")).commit({}, SCHEMA, 2)
    vacuum(str(tmp_path), 0)
    repair(str(tmp_path))
    assert content(tmp_path / "t") == [("wanted", MONDAY)]


def test_a_step_that_was_refused_is_done_again_with_the_tables_repaired(tmp_path: Path) -> None:
    step(tmp_path, 1, "first")
    attempts: list[int] = []

    def work() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            step(tmp_path, 2, "rival")
            DeltaLog(str(tmp_path / "t")).commit({}, SCHEMA, 2)
            raise ConcurrentWriter("t")
        return "done"

    assert retrying(str(tmp_path), work) == "done"
    assert content(tmp_path / "t") == [("first", MONDAY), ("rival", MONDAY)]


def test_a_step_that_is_always_refused_fails(tmp_path: Path) -> None:
    def work() -> None:
        raise ConcurrentWriter("t")

    with pytest.raises(ConcurrentWriter):
        retrying(str(tmp_path), work)


def test_a_slow_step_beside_a_quick_stream_is_repeated_until_it_is_done(tmp_path: Path) -> None:
    tries: list[int] = []

    def work() -> str:
        # A rival commits a smaller step each time, five times.
        tries.append(len(tries) + 1)
        if len(tries) > 5:
            return "done"
        step(tmp_path, len(tries), f"rival {len(tries)}")
        raise ConcurrentWriter("t")

    assert retrying(str(tmp_path), work) == "done"
    assert len(tries) == 6


def test_a_table_with_a_column_that_older_files_lack_is_merged(tmp_path: Path) -> None:
    step(tmp_path, 1, "old")
    step(tmp_path, 2, "older")
    wider = SCHEMA.append(pa.field("n", pa.int64()))
    former = read_snapshot(str(tmp_path))
    log = DeltaLog(str(tmp_path / "t"))
    fresh = list_files(log.uri, write(tmp_path / "t", "3", MONDAY, "new"))
    version = log.commit({**log.files(former.tables["t"]), **fresh}, wider, 3)
    commit_snapshot(str(tmp_path), former, Snapshot(3, 3, None, {"t": version}), "step")
    assert compact(str(tmp_path)) == {"t": 2}
    assert [name for name, _ in content(tmp_path / "t")] == ["new", "old", "older"]
