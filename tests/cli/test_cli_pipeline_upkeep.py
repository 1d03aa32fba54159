import json
from pathlib import Path

import pytest
from tests.pipeline.test_pipeline_maintenance import step
from typer.testing import CliRunner

from dragoman.cli.pipeline import app

runner = CliRunner()


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """A table of three small files, each of one step."""
    for n in range(1, 4):
        step(tmp_path, n * 10, f"row {n}")
    return str(tmp_path)


def ask(*words: str) -> str:
    done = runner.invoke(app, [*words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_history_lists_the_steps(tables: str) -> None:
    rows = json.loads(ask("history", "--tables", tables, "--json"))
    assert [row["records up to"] for row in rows] == [30, 20, 10]
    assert "step" in ask("history", "--tables", tables)


def test_files_are_merged_and_the_old_ones_deleted_when_they_are_old(tables: str) -> None:
    assert "merged 2 files: t 2" in ask("compact", "--tables", tables)
    assert ask("compact", "--tables", tables) == "no small files to merge\n"
    assert ask("vacuum", "--tables", tables) == "no files to delete\n"
    assert json.loads(ask("vacuum", "--tables", tables, "--dry-run", "--json")) == {}


@pytest.mark.parametrize("command", ["compact", "vacuum"])
def test_without_tables_the_command_to_run_is_named(command: str, tmp_path: Path) -> None:
    done = runner.invoke(app, [command, "--tables", str(tmp_path)])
    assert done.exit_code == 2
    assert "run `dragoman pipeline run` first" in done.output
