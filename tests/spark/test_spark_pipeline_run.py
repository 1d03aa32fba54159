"""Registered pipelines: SQL, Python and services in one run, outputs whole or not at all."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.conftest import Score

from dragoman.spark.guard import NotAllowed
from dragoman.spark.pipeline_run import PipelineRun
from dragoman.spark.settings import Pipeline
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.range(6).selectExpr("cast(id as int) as x").createOrReplaceTempView("numbers")
    return session


def pipeline(folder: Path, service: str = "", **more: Any) -> Pipeline:
    said = {
        "parameters": {"least": 4},
        "inputs": {"n": "numbers"},
        "steps": [
            {"name": "some", "sql": "select * from n where x <= :least"},
            {
                "name": "doubled",
                "call": {"rows": "some", "service": service, "task": "double", "returns": "int"},
            },
            {"name": "total", "python": "tests.spark.pipeline_steps:total"},
        ],
        "outputs": {
            "doubled": {"path": str(folder / "doubled")},
            "total": {"path": str(folder / "total"), "format": "json"},
        },
    }
    return Pipeline.model_validate({**said, **more})


def one_step(folder: Path, mode: str = "replace", **step: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "steps": [{"name": "a", **step}],
            "outputs": {"a": {"path": str(folder / "a"), "mode": mode}},
        }
    )


def test_steps_of_all_kinds_run_and_their_outputs_are_counted(
    session: SparkSession, broker: LocalBroker, score: Score, service: str, tmp_path: Path
) -> None:
    steps: list[str] = []
    url = broker.url("nfp")
    run = PipelineRun(session, pipeline(tmp_path, service), {"least": 3}, "run-1", url)
    assert run.run(steps.append) == {
        "doubled": {"rows": 4, "path": str(tmp_path / "doubled")},
        "total": {"rows": 1, "path": str(tmp_path / "total")},
    }
    assert steps == ["some", "doubled", "total", "writing doubled", "writing total"]
    assert session.read.json(str(tmp_path / "total")).collect()[0]["total"] == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["doubled", "total"]
    # Two outputs need the answers; a run that is tried again has the same ones.
    PipelineRun(session, pipeline(tmp_path, service), {"least": 3}, "run-1", url).run()
    assert score.asked == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_run_that_fails_leaves_the_old_output_as_it_was(
    session: SparkSession, tmp_path: Path
) -> None:
    PipelineRun(session, one_step(tmp_path, sql="select 1 as v"), {}, "r1", "").run()
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        PipelineRun(
            session, one_step(tmp_path, sql="select 1 / (id - 1) as v from range(3)"), {}, "r2", ""
        ).run()
    assert [row["v"] for row in session.read.parquet(str(tmp_path / "a")).collect()] == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_is_added_is_added_once_for_each_run(session: SparkSession, tmp_path: Path) -> None:
    for run in ("r1", "r2", "r2"):
        PipelineRun(session, one_step(tmp_path, "append", sql="select 1 as v"), {}, run, "").run()
    assert session.read.parquet(str(tmp_path / "a")).count() == 2


def test_steps_are_queries_too(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="InsertIntoStatement"):
        PipelineRun(session, one_step(tmp_path, sql="insert into x select 1"), {}, "r", "").run()


def test_a_function_that_returns_no_frame_and_an_unknown_parameter_are_said(
    session: SparkSession, tmp_path: Path
) -> None:
    forgetful = one_step(tmp_path, python="tests.spark.pipeline_steps:nothing")
    with pytest.raises(TypeError, match="must return a DataFrame, not NoneType"):
        PipelineRun(session, forgetful, {}, "r", "").run()
    with pytest.raises(ValueError, match="unknown parameter most; known parameters: least"):
        PipelineRun(session, pipeline(tmp_path), {"most": 1}, "r", "")


def test_a_step_that_calls_needs_a_broker(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="step 'doubled' needs a url"):
        PipelineRun(session, pipeline(tmp_path, "s"), {}, "r", "").run()


def test_files_can_be_inputs(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"v": 7}\n')
    said = {
        "inputs": {"a": {"path": str(tmp_path / "in.json"), "format": "json"}},
        "outputs": {"a": {"path": str(tmp_path / "out")}},
    }
    assert PipelineRun(session, Pipeline.model_validate(said), {}, "r", "").run()["a"]["rows"] == 1
