"""Segments and tables on object storage: an S3-compatible server, credentials by environment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession
from tests.canary_watch import Canary
from tests.pipeline.object_store import BUCKET, object_store
from tests.pipeline.records import History, export
from typer.testing import CliRunner

from dragoman.cli.pipeline import app
from dragoman.pipeline.delta import ConcurrentWriter
from dragoman.pipeline.embedded.run import run_embedded
from dragoman.pipeline.files import read_files
from dragoman.pipeline.maintenance import compact, vacuum
from dragoman.pipeline.queries import SparkQueries
from dragoman.pipeline.run import RunSummary, run
from dragoman.pipeline.snapshot import Snapshot, commit_snapshot, history, read_snapshot
from dragoman.pipeline.storage import exists, join, open_filesystem, read_bytes, write_bytes
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.stream import stream
from dragoman.pipeline.table_state import TableState
from dragoman.pipeline.tables import TABLES
from dragoman.pipeline.upload import upload

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with object_store(tmp_path_factory.mktemp("s3")) as environment:
        yield environment


@pytest.fixture(autouse=True)
def client(environment: dict[str, str], canary: Canary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", canary("password"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/{request.node.name}"


@pytest.fixture
def exported(tmp_path: Path) -> str:
    """An export of two segments, of records 1 to 12 and 13 to 20, in a folder."""
    past = History()
    past.join("w1")
    for n in range(6):
        job = past.submit(f"j{n}")
        past.dispatch(job)
        past.end(job)
    past.submit("open")
    return export(tmp_path / "export", past.records, 12)


def rows(root: str, table: str) -> list[dict[str, Any]]:
    state = TableState(root)
    found = read_files(state.root, table, TABLES[table], state.files(table).values())
    return sorted(found.to_pylist(), key=str)


def pipeline(*words: str) -> str:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, done.output
    return done.output


def test_files_are_written_and_read_and_there_are_no_empty_folders(place: str) -> None:
    write_bytes(join(place, "a/b"), b"x")
    assert read_bytes(join(place, "a/b").replace("s3:", "s3a:")) == b"x"
    assert not exists(join(place, "a/c"))
    with pytest.raises(FileNotFoundError):
        read_bytes(join(place, "a/c"))


def test_every_command_works_on_a_bucket(place: str, exported: str, tmp_path: Path) -> None:
    segments, tables = join(place, "segments"), join(place, "tables")
    assert "every record up to 20" in pipeline("upload", segments, "--source", exported)
    assert "records 1 to 20" in pipeline("run", "-s", segments, "-t", tables)
    assert "nothing new" in pipeline("run", "-s", segments, "-t", tables)
    assert "no breach found" in pipeline("audit", "-t", tables)
    assert "20" in pipeline("history", "-t", tables)
    sql = "select count(*) as n from jobs"
    assert '"n": 7' in pipeline("query", sql, "-t", tables, "--engine", "duckdb", "--json")
    pipeline("report", "-t", tables, "-o", str(tmp_path / "report.html"))
    assert "math" in (tmp_path / "report.html").read_text()
    run_embedded(exported, str(tmp_path / "tables"))
    for name in TABLES:
        assert rows(tables, name) == rows(str(tmp_path / "tables"), name), name


def test_a_stream_takes_what_was_uploaded_since(place: str, exported: str) -> None:
    segments, tables = join(place, "segments"), join(place, "tables")
    upload(exported, segments)
    words = ["stream", "-s", segments, "-t", tables, "--once", "--most-rows", "12"]
    shown = pipeline(*words)
    assert "at record 12," in shown
    assert "at record 20," in shown
    assert pipeline(*words) == ""


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_spark_without_its_jar_makes_the_same_tables_on_a_bucket(
    spark: SparkSession, place: str, exported: str, tmp_path: Path
) -> None:
    segments, tables, here = join(place, "segments"), join(place, "tables"), str(tmp_path / "t")
    upload(exported, segments)
    run_embedded(exported, here, most_rows=12)
    # The first segment by DuckDB, the second by Spark, on copies.
    run_embedded(segments, tables, most_rows=12)
    done = run(spark, segments, tables)
    assert (done.after, done.upto) == (12, 20)
    run_embedded(exported, here)
    for name in TABLES:
        assert rows(tables, name) == rows(here, name), name
    found = SparkQueries(TableStore(spark, tables)).rows("select count(*) as n from jobs")
    assert found == [{"n": 7}]


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_stream_by_spark_continues_after_the_tables_on_a_bucket(
    spark: SparkSession, place: str, exported: str
) -> None:
    # Spark's Python workers have the environment of its start, so the segments are in a folder.
    for _ in range(2):
        stream(spark, exported, place, every=None, most_rows=12).awaitTermination()
    assert [step.seq for step in history(place) if step.operation == "step"] == [20, 12]
    assert sorted(row["seq"] for row in rows(place, "events")) == [*range(1, 21)]


def test_of_two_runs_on_a_bucket_one_is_refused_and_repeats(place: str, exported: str) -> None:
    rivals: list[RunSummary] = []

    def rival(stage: str) -> None:
        # Just before the commit, another run does the first half of the same step.
        if stage == "commit" and not rivals:
            rivals.append(run_embedded(exported, place, most_rows=12))

    done = run_embedded(exported, place, rival)
    assert (rivals[0].records, done.after, done.upto) == (12, 12, 20)
    assert [step.seq for step in history(place) if step.operation == "step"] == [20, 12]
    assert sorted(row["seq"] for row in rows(place, "events")) == [*range(1, 21)]


def test_the_store_refuses_a_commit_on_a_version_that_is_not_the_newest(place: str) -> None:
    first = Snapshot(1, 10)
    commit_snapshot(place, Snapshot(), first, "step")
    with pytest.raises(ConcurrentWriter):
        commit_snapshot(place, Snapshot(), Snapshot(1, 11), "step")
    commit_snapshot(place, first, Snapshot(2, 20), "step")
    with pytest.raises(ConcurrentWriter):
        commit_snapshot(place, first, Snapshot(2, 21), "step")
    assert read_snapshot(place).seq == 20


def test_files_on_a_bucket_are_merged_and_deleted(place: str, exported: str) -> None:
    run_embedded(exported, place, most_rows=12)
    run_embedded(exported, place)
    before = rows(place, "events")
    assert compact(place)["events"] == 1
    assert rows(place, "events") == before
    assert sum(vacuum(place, 0).values()) > 0
    assert rows(place, "events") == before
    system, path = open_filesystem(join(place, "events"))
    found = system.get_file_info(fs.FileSelector(path, recursive=True))
    assert len([info for info in found if info.base_name.endswith(".parquet")]) == 1
