"""The notebook is run here cell by cell, as Jupyter would, without its packages."""

import ast
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.pipeline.records import History, export

from dragoman.pipeline.embedded.run import run_embedded
from dragoman.pipeline.notebook import QUESTIONS, build_notebook


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run the statements of a cell; return the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_every_question_is_answered_from_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History()
    history.join("w1")
    job = history.submit("j", principal="anna")
    history.dispatch(job)
    history.end(job)
    history.end(job)
    run_embedded(export(tmp_path / "export", history.records), str(tmp_path / "tables"))
    page = json.loads(build_notebook(str(tmp_path / "tables")))
    code = [cell["source"] for cell in page["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    load, *answers = [run_cell(source, names) for source in code]
    assert load is None
    assert "records 1 to 5" in capsys.readouterr().out
    assert len(answers) == len(QUESTIONS) == 6
    for answer in answers:
        assert isinstance(answer, pd.DataFrame)
        assert len(answer) == 1
    assert answers[0]["service"][0] == "math"
    assert answers[5]["rule"][0] == "two_final_states"


def test_the_file_has_the_form_of_notebook_format_4_5() -> None:
    page = json.loads(build_notebook("it's here"))
    assert (page["nbformat"], page["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in page["cells"]]
    assert len(ids) == len(set(ids)) == 14
    common = {"cell_type", "id", "metadata", "source"}
    for cell in page["cells"]:
        more = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == common | more
    ast.parse(page["cells"][1]["source"])
