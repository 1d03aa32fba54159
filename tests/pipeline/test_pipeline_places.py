from pathlib import Path

import pytest

from dragoman.pipeline import places
from dragoman.pipeline.places import CopiedPlace, StorageUnreachable, needs_copies


@pytest.fixture
def no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark without jars of its own."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    return tmp_path / "spark" / "jars"


@pytest.mark.parametrize("uri", ["/data/tables", "file:///data", "hdfs://name/data"])
def test_spark_reaches_folders_and_hdfs_by_itself(uri: str, no_jars: Path) -> None:
    assert not needs_copies(uri, "local[*]", {})
    assert not needs_copies(uri, "spark://host:7077", {})


@pytest.mark.parametrize("uri", ["s3://bucket/tables", "s3a://bucket/tables", "gs://bucket/x"])
def test_spark_on_one_machine_works_on_copies_of_object_storage(uri: str, no_jars: Path) -> None:
    assert needs_copies(uri, "local[2]", {"spark.jars": ""})


def test_a_cluster_without_the_jar_is_told_what_to_do(no_jars: Path) -> None:
    with pytest.raises(StorageUnreachable, match=r"s3://b/t: .*--conf spark[.]jars[.]packages="):
        needs_copies("s3://b/t", "spark://host:7077", {})


def test_with_a_jar_spark_goes_there_itself(no_jars: Path) -> None:
    named = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1"}
    assert not needs_copies("s3://b/t", "spark://host:7077", named)
    (no_jars / "hadoop-aws-3.4.1.jar").touch()
    assert not needs_copies("s3://b/t", "local[*]", {})


def test_files_are_fetched_once_and_sent_and_old_copies_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    for name in ("jobs/a.parquet", "jobs/b.parquet"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(name.encode())
    place = CopiedPlace(str(store))
    copies = Path(place.base)
    place.fetch(["jobs/a.parquet", "jobs/b.parquet"])
    assert (copies / "jobs/a.parquet").read_bytes() == b"jobs/a.parquet"
    monkeypatch.setattr(places, "open_filesystem", None)
    place.fetch(["jobs/a.parquet"])
    monkeypatch.undo()
    (copies / "jobs/write-1/day=x").mkdir(parents=True)
    for name in ("day=x/c.parquet", "day=x/.c.parquet.crc", "_SUCCESS"):
        (copies / "jobs/write-1" / name).write_bytes(b"new")
    place.send("jobs/write-1")
    sent = [path for path in (store / "jobs/write-1").rglob("*") if path.is_file()]
    assert sent == [store / "jobs/write-1/day=x/c.parquet"]
    place.keep(["jobs/write-1/day=x/c.parquet"])
    assert [p.name for p in copies.rglob("*.parquet")] == ["c.parquet"]


def test_a_file_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    place = CopiedPlace(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        place.fetch(["none.parquet"])
    assert not list(Path(place.base).rglob("*.parquet"))
