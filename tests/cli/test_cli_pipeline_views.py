import json
from pathlib import Path

import pytest
from tests.pipeline.records import History, export
from typer.testing import CliRunner

from dragoman.cli.pipeline import app
from dragoman.pipeline.embedded.run import run_embedded


@pytest.fixture
def root(tmp_path: Path) -> str:
    history = History()
    for name in ("anna", "bert"):
        job = history.submit(name, principal=name)
        history.dispatch(job)
        history.end(job)
    run_embedded(export(tmp_path / "export", history.records), str(tmp_path / "tables"))
    return str(tmp_path / "tables")


def invoke(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return done.output


def test_a_bill_is_printed_as_csv_or_written_to_a_file(root: str, tmp_path: Path) -> None:
    lines = invoke("bill", "-t", root).splitlines()
    assert [line.split(",")[0] for line in lines] == ["principal", "anna", "bert"]
    assert len(invoke("bill", "-t", root, "--since", "2026-01-06").splitlines()) == 1
    page = tmp_path / "bill.html"
    assert "1 lines" in invoke("bill", "-t", root, "--principal", "anna", "-o", str(page))
    assert "anna" in page.read_text()
    assert "bert" not in page.read_text()
    assert "neither" in invoke("bill", "-t", root, "-o", "bill.pdf", code=2)


def test_a_forecast_names_each_service_with_its_queue_and_load(root: str) -> None:
    (found,) = json.loads(invoke("forecast", "-t", root, "--json"))
    assert (found["service"], found["waiting"], found["queue"]) == ("math", 0, "is empty")
    assert (found["places"], found["outlook"]) == (0, "no worker is connected")
    assert "is empty" in invoke("forecast", "-t", root)


def test_a_notebook_is_written_for_tables_that_exist(root: str, tmp_path: Path) -> None:
    out = tmp_path / "n.ipynb"
    invoke("notebook", "-t", root, "-o", str(out))
    assert root in json.loads(out.read_text())["cells"][1]["source"]
    assert "no tables" in invoke("notebook", "-t", str(tmp_path / "none"), code=2)
