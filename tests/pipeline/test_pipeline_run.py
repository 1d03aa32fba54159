"""Batch runs: what is new and nothing else; what cannot be read stops them, unchanged."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import History, export, listed, relist, rows

from dragoman.pipeline.delta import DeltaLog
from dragoman.pipeline.manifest import SegmentDamaged, SegmentMissing
from dragoman.pipeline.run import RunSummary, run
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def history() -> History:
    history = History()
    history.join("w1")
    for n in range(6):
        job = history.submit(f"j{n}")
        history.dispatch(job)
        history.end(job)
    history.submit("open")
    return history


@pytest.fixture(scope="module")
def begun(
    spark: SparkSession, history: History, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """An export of two segments, and tables that have the first."""
    folder = tmp_path_factory.mktemp("export")
    tables = tmp_path_factory.mktemp("tables")
    export(folder, history.records, 12)
    both = listed(folder)
    relist(folder, both[:1])
    done = run(spark, str(folder), str(tables))
    assert (done.after, done.upto, done.segments) == (0, 12, 1)
    relist(folder, both)
    return folder, tables


@pytest.fixture
def copied(begun: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of both, which a test may damage."""
    for name, source in zip(("export", "tables"), begun, strict=True):
        shutil.copytree(source, tmp_path / name)
    return tmp_path / "export", tmp_path / "tables"


def assert_stopped(
    spark: SparkSession, copied: tuple[Path, Path], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        run(spark, str(copied[0]), str(copied[1]))
    store = TableStore(spark, str(copied[1]))
    assert store.snapshot.seq == 12
    assert read_table(store, "events").count() == 12


def test_a_damaged_segment_stops_the_run_and_is_named(
    spark: SparkSession, copied: tuple[Path, Path]
) -> None:
    path = copied[0] / listed(copied[0])[1]["file"]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert_stopped(spark, copied, SegmentDamaged, r"records 13 to 20\); the tables are unchanged")


def test_a_file_that_is_gone_stops_the_run_and_is_named(
    spark: SparkSession, copied: tuple[Path, Path]
) -> None:
    (copied[0] / listed(copied[0])[1]["file"]).unlink()
    assert_stopped(spark, copied, SegmentMissing, "does not exist .records 13 to 20")


def test_a_hole_in_the_manifest_stops_the_run_and_is_named(
    spark: SparkSession, copied: tuple[Path, Path]
) -> None:
    later = listed(copied[0])[1] | {"first": 16}
    relist(copied[0], [listed(copied[0])[0], later])
    assert_stopped(spark, copied, SegmentMissing, "records 13 to 15")


def test_without_a_manifest_the_reader_is_told_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="there is no manifest"):
        run(spark, str(tmp_path), str(tmp_path / "tables"))


def test_segments_that_overlap_or_come_twice_are_read_once_and_a_rerun_does_nothing(
    spark: SparkSession, copied: tuple[Path, Path], history: History, tmp_path: Path
) -> None:
    other = tmp_path / "again"
    export(other, history.records[:16])
    extra = listed(other)[0]
    shutil.copy(other / extra["file"], copied[0] / extra["file"])
    relist(copied[0], [*listed(copied[0]), extra, *listed(copied[0])])
    done = run(spark, str(copied[0]), str(copied[1]))
    assert (done.after, done.upto) == (12, 20)
    assert done.written["events"] == 8
    assert done.written["audit"] == 0
    store = TableStore(spark, str(copied[1]))
    seqs = [seq for (seq,) in rows(read_table(store, "events"), "seq")]
    assert seqs == [*range(1, 21)]
    assert rows(read_table(store, "audit"), "rule") == []
    assert rows(read_table(store, "jobs").where("day is null"), "job") == [("open",)]
    again = run(spark, str(copied[0]), str(copied[1]))
    assert (again.records, again.segments, again.written) == (0, 0, {})
    assert TableStore(spark, str(copied[1])).snapshot.version == store.snapshot.version


def test_a_run_beside_another_repeats_only_what_is_still_new(
    spark: SparkSession, copied: tuple[Path, Path]
) -> None:
    source, root = (str(path) for path in copied)
    rivals: list[RunSummary] = []

    def rival(stage: str) -> None:
        # Just before the commit, another run does the same step.
        if stage == "commit" and not rivals:
            rivals.append(run(spark, source, root))

    done = run(spark, source, root, rival)
    assert rivals[0].records == 8
    assert (done.records, done.segments) == (0, 0)
    store = TableStore(spark, root)
    assert [seq for (seq,) in rows(read_table(store, "events"), "seq")] == [*range(1, 21)]
    for table, version in store.snapshot.tables.items():
        newest = DeltaLog(f"{root}/{table}")
        opened = newest.open()
        assert opened is not None
        assert newest.files(version) == newest.files(opened.version())
