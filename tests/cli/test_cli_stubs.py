"""`dragoman stubs`: a typed client from the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_client_is_printed_or_written(run: Run, tmp_path: Path) -> None:
    code, out, err = run("stubs", "math")
    assert (code, err) == (0, "")
    assert "class Math:" in out
    assert "def add(self, x: Any, y: Any = 0) -> Any:" in out
    code, said, _ = run("stubs", "math", "--out", str(tmp_path / "stub.py"))
    assert code == 0
    assert "tasks of math" in said
    assert (tmp_path / "stub.py").read_text() == out


def test_the_description_is_json(run: Run) -> None:
    described = json.loads(run("stubs", "math", "--json")[1])
    assert "add" in [task["task"] for task in described]
