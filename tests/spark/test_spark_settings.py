"""The file of a Spark worker: what it says, and what is wrong with it."""

import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.spark.settings import Data, Pipeline, PipelineStep, SparkSettings, load

FILE = """
tables = "tables"
[data.orders]
path = "in/orders"
[data.far]
path = "s3a://bucket/far"
format = "csv"
options = { header = "true" }
[results]
url = "nf://drop"
folder = "/srv/drop"
[pipelines.enrich]
parameters = { since = "2026-01-01" }
inputs = { o = "orders", files = { path = "more", format = "json" } }
outputs = { last = { path = "out" } }
[[pipelines.enrich.steps]]
name = "first"
sql = "select * from o where day >= :since"
[[pipelines.enrich.steps]]
name = "last"
call = { rows = "first", service = "risk" }
"""


def test_a_file_is_read_and_its_paths_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "spark.toml").write_text(FILE)
    found = load(tmp_path / "spark.toml")
    assert found.tables == str(tmp_path / "tables")
    assert found.data["orders"].path == str(tmp_path / "in/orders")
    assert found.data["far"].path == "s3a://bucket/far"
    assert found.results.folder == "/srv/drop"
    pipeline = found.pipelines["enrich"]
    assert pipeline.outputs["last"].path == str(tmp_path / "out")
    assert pipeline.inputs["files"] == Data(path=str(tmp_path / "more"), format="json")
    assert pipeline.inputs["o"] == "orders"


def test_the_file_on_the_page_is_a_good_one(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "spark.toml").write_text(text)
    (pipeline,) = load(tmp_path / "spark.toml").pipelines.values()
    assert [step.name for step in pipeline.steps] == ["recent", "asked", "graded"]


def test_by_default_only_queries_are_run_and_there_is_nothing_to_see() -> None:
    assert SparkSettings().read_only
    assert not SparkSettings().data
    assert not SparkSettings().tables


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("tabels = 1", "tabels"),
        ("[data.x]\npath = 1", "data.x.path"),
        ("[data.x]\npath = 'a'\nformat = 'xls'", "format"),
        ("[pipelines.p]\noutputs = {}", "outputs"),
        ("= 1", "line 1"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, wrong: str, words: str) -> None:
    file = tmp_path / "spark.toml"
    file.write_text(wrong)
    with pytest.raises(ValueError, match=words) as error:
        load(file)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    "said",
    [
        {"name": "s"},
        {"name": "s", "sql": "select 1", "python": "m:f"},
        {"name": "not a name", "sql": "select 1"},
    ],
)
def test_a_step_is_one_thing_with_a_name(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"name|one of sql, python and call"):
        PipelineStep.model_validate(said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"outputs": {"x": {"path": "p"}}}, "no input or step is called x"),
        (
            {
                "inputs": {"x": "t"},
                "steps": [{"name": "x", "sql": "select 1"}],
                "outputs": {"x": {"path": "p"}},
            },
            "the name 'x' is used twice",
        ),
        (
            {
                "steps": [{"name": "x", "call": {"rows": "y", "service": "s"}}],
                "outputs": {"x": {"path": "p"}},
            },
            "uses the rows of 'y', which is neither",
        ),
    ],
)
def test_a_pipeline_whose_parts_do_not_meet_is_refused(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Pipeline.model_validate(said)
