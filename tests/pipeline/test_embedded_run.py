"""Runs without Spark: what is new and nothing else; what cannot be read stops them, unchanged."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pipeline.records import History, export, listed, relist

from dragoman.pipeline.delta import DeltaLog
from dragoman.pipeline.embedded import run as module
from dragoman.pipeline.embedded import step as step_module
from dragoman.pipeline.embedded.run import follow, is_embedded, run_embedded
from dragoman.pipeline.files import read_files
from dragoman.pipeline.manifest import SegmentDamaged, SegmentMissing
from dragoman.pipeline.run import RunSummary
from dragoman.pipeline.snapshot import Snapshot, read_snapshot
from dragoman.pipeline.table_state import TableState
from dragoman.pipeline.tables import TABLES


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of two segments, of records 1 to 12 and 13 to 20."""
    history = History()
    history.join("w1")
    for n in range(6):
        job = history.submit(f"j{n}")
        history.dispatch(job)
        history.end(job)
    history.submit("open")
    export(tmp_path / "export", history.records, 12)
    return tmp_path / "export"


def table(root: Path, name: str) -> pa.Table:
    state = TableState(str(root))
    return read_files(state.root, name, TABLES[name], state.files(name).values())


def seqs(root: Path) -> list[int]:
    return sorted(row["seq"] for row in table(root, "events").to_pylist())


def test_a_run_reads_what_is_new_and_another_one_nothing(exported: Path, tmp_path: Path) -> None:
    root = tmp_path / "tables"
    done = run_embedded(str(exported), str(root))
    assert (done.after, done.upto, done.segments) == (0, 20, 2)
    assert done.written["jobs"] == 7
    assert seqs(root) == [*range(1, 21)]
    again = run_embedded(str(exported), str(root))
    assert (again.records, again.segments) == (0, 0)
    assert read_snapshot(str(root)).version == 1


def test_a_damaged_or_missing_segment_changes_nothing(exported: Path, tmp_path: Path) -> None:
    root = tmp_path / "tables"
    run_embedded(str(exported), str(root), most_rows=12)
    path = exported / listed(exported)[1]["file"]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(SegmentDamaged, match="records 13 to 20"):
        run_embedded(str(exported), str(root))
    path.unlink()
    with pytest.raises(SegmentMissing, match="records 13 to 20"):
        run_embedded(str(exported), str(root))
    assert read_snapshot(str(root)).seq == 12


def test_segments_that_overlap_are_read_once(exported: Path, tmp_path: Path) -> None:
    relist(exported, [*listed(exported), *listed(exported)])
    run_embedded(str(exported), str(tmp_path / "tables"))
    assert seqs(tmp_path / "tables") == [*range(1, 21)]


def test_a_run_beside_another_repeats_only_what_is_still_new(
    exported: Path, tmp_path: Path
) -> None:
    root = tmp_path / "tables"
    rivals: list[RunSummary] = []

    def rival(stage: str) -> None:
        # Just before the commit, another run does the same step.
        if stage == "commit" and not rivals:
            rivals.append(run_embedded(str(exported), str(root)))

    done = run_embedded(str(exported), str(root), rival)
    assert (rivals[0].records, done.records) == (20, 0)
    assert seqs(root) == [*range(1, 21)]


class Enough(Exception):
    """Ends a stream."""


def test_a_stream_takes_steps_and_looks_again(exported: Path, tmp_path: Path) -> None:
    whole = listed(exported)
    relist(exported, whole[:1])
    seen: list[Snapshot] = []
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        relist(exported, whole)
        if len(waits) > 1:
            raise Enough

    with pytest.raises(Enough):
        follow(str(exported), str(tmp_path / "tables"), every=7, notice=seen.append, wait=wait)
    assert [snapshot.seq for snapshot in seen] == [12, 20]
    assert waits == [7, 7]


def test_a_stream_that_is_far_behind_takes_several_steps(exported: Path, tmp_path: Path) -> None:
    seen: list[Snapshot] = []
    follow(str(exported), str(tmp_path / "tables"), every=None, most_rows=5, notice=seen.append)
    assert [snapshot.seq for snapshot in seen] == [12, 20]


def test_a_step_of_a_stream_reads_no_more_logs_after_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History()
    history.join("w1")
    for n in range(7):
        job = history.submit(f"j{n}")
        history.dispatch(job)
        history.end(job)
    ends = [*range(4, 22, 3)]
    source = export(tmp_path / "export", history.records, *ends)
    counts: list[int] = []
    opened: list[str] = []
    known = DeltaLog.open

    def counted(log: DeltaLog, version: int | None = None) -> object:
        opened.append(log.uri)
        return known(log, version)

    monkeypatch.setattr(DeltaLog, "open", counted)

    def notice(_: Snapshot) -> None:
        counts.append(len(opened))
        opened.clear()

    follow(source, str(tmp_path / "tables"), every=None, most_rows=3, notice=notice)
    # Each log once, for its commit, and the step log twice.
    number = len(TableState(str(tmp_path / "tables")).snapshot.tables)
    assert counts[1:] == [number + 2] * 6


def test_only_days_of_sessions_that_may_change_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, ends = History(), []
    for n in range(5):
        history.join(f"w{n}", after=86_400)
        if n != 2:
            history.leave(f"w{n}")
        ends.append(len(history.records))
    source = export(tmp_path / "export", history.records, *ends[:-1])
    seen: list[list[str]] = []

    def seen_files(root: str, table: str, *rest: Any) -> pa.Table:
        if table == "session_days":
            seen.append(sorted(str(file.day) for file in rest[1]))
        return read_files(root, table, *rest)

    monkeypatch.setattr(step_module, "read_files", seen_files)
    follow(source, str(tmp_path / "tables"), every=None, most_rows=2)
    # The third worker stays; the two before it are done.
    assert seen == [[], [], [], [], ["2026-01-08"]]


def test_much_that_is_new_is_for_spark(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path / "tables")
    assert is_embedded(root, module.MOST_NEW)
    assert not is_embedded(root, module.MOST_NEW + 1)
    run_embedded(str(exported), root)
    monkeypatch.setattr(module, "MOST_RECENT", 19)
    assert not is_embedded(root, 1)
