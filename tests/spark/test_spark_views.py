"""Tables of files and of the pipeline, always the newest."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dragoman.pipeline.run import run
from dragoman.pipeline.synth import synthesise
from dragoman.spark.settings import Data
from dragoman.spark.views import Views

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_files_of_every_kind_are_tables(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "p"))
    (tmp_path / "c.csv").write_text("a,b\n1,x\n2,y\n")
    write(tmp_path / "j", "one", {"a": 1})
    csv = Data(
        path=str(tmp_path / "c.csv"),
        format="csv",
        options={"header": "true"},
        columns="a int, b string",
    )
    data = {
        "p": Data(path=str(tmp_path / "p")),
        "c": csv,
        "j": Data(path=str(tmp_path / "j"), format="json"),
    }
    views = Views(spark.newSession(), data)
    views.open()
    assert views.names() == ["c", "j", "p"]
    assert views.session.sql("select sum(a) from c").collect()[0][0] == 3
    assert views.session.sql("select count(*) from p, j").collect()[0][0] == 3
    assert views.columns("c") == [
        {"name": "a", "type": "int", "nullable": True},
        {"name": "b", "type": "string", "nullable": True},
    ]
    assert views.listing()[0] == {"name": "c", "kind": "data", "format": "csv"}
    with pytest.raises(KeyError):
        views.columns("nobody")


def test_new_files_are_seen_after_a_while(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "j", "one", {"a": 1})
    clock = Clock()
    views = Views(
        spark.newSession(),
        {"j": Data(path=str(tmp_path / "j"), format="json")},
        refresh=5.0,
        clock=clock,
    )
    views.open()
    write(tmp_path / "j", "two", {"a": 2})
    for later, count in ((4.0, 1), (5.0, 2)):
        clock.now = 100.0 + later
        views.renew()
        assert views.session.table("j").count() == count
    write(tmp_path / "j", "three", {"a": 3})
    views.renew(at_once=True)
    assert views.session.table("j").count() == 3


def test_the_tables_of_the_pipeline_follow_its_newest_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    views = Views(spark.newSession(), {}, str(tmp_path / "tables"), refresh=0.0)
    views.open()
    assert "jobs" in views.names()
    assert views.session.table("jobs").count() == 0
    synthesise(tmp_path / "sealed", 500, seed=1)
    run(spark, str(tmp_path / "sealed"), str(tmp_path / "tables"))
    views.renew()
    assert views.session.table("events").count() == 500
    assert views.listing()[0]["kind"] == "pipeline"


def test_missing_data_and_duplicate_table_names_are_refused_at_the_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    missing = {"x": Data(path=str(tmp_path / "nowhere"))}
    with pytest.raises(ValueError, match=r"table x: .*nowhere"):
        Views(spark.newSession(), missing).open()
    with pytest.raises(ValueError, match="the pipeline has tables called jobs"):
        Views(spark.newSession(), {"jobs": Data(path="x")}, str(tmp_path))


def test_data_that_vanishes_keeps_its_old_view(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "j", "one", {"a": 1})
    views = Views(spark.newSession(), {"j": Data(path=str(tmp_path / "j"), format="json")})
    views.open()
    (tmp_path / "j" / "one.json").unlink()
    (tmp_path / "j").rmdir()
    views.renew(at_once=True)
    assert views.columns("j") == [{"name": "a", "type": "bigint", "nullable": True}]
