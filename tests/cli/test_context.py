"""`dragoman context`, and the commands that use one."""

import json
from pathlib import Path

import pytest

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("DRAGOMAN_URL", "DRAGOMAN_KEY_FILE", "DRAGOMAN_JSON", "DRAGOMAN_CONTEXT"):
        # Set and deleted, so that what a command sets is gone after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def dragoman(*arguments: str) -> int:
    return run_to_exit_code(lambda: app(list(arguments)))


def test_contexts_are_added_listed_used_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert dragoman("context", "list") == 0
    assert "no contexts" in capsys.readouterr().out
    assert dragoman("context", "add", "lab", "--url", "nfp://127.0.0.1:1") == 0
    assert dragoman("context", "add", "prod", "--url", "zss://127.0.0.1:2") == 0
    assert dragoman("context", "use", "prod") == 0
    capsys.readouterr()
    assert dragoman("context", "list", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["current"]) for row in rows] == [("lab", ""), ("prod", "*")]
    assert dragoman("context", "remove", "lab") == 0
    assert dragoman("context", "use", "lab") == 2
    assert dragoman("context", "add", "x", "--url", "ftp://x") == 2


def test_a_command_asks_the_broker_of_its_context(capsys: pytest.CaptureFixture[str]) -> None:
    dragoman("context", "add", "one", "--url", "zss://127.0.0.1:1")
    assert dragoman("services") == 3
    assert "127.0.0.1:1 " in capsys.readouterr().err


def test_an_option_chooses_another_context(capsys: pytest.CaptureFixture[str]) -> None:
    dragoman("context", "add", "two", "--url", "zss://127.0.0.1:2")
    assert dragoman("--context", "two", "services") == 3
    assert "127.0.0.1:2 " in capsys.readouterr().err
    assert dragoman("--context", "three", "services") == 2


def test_a_stale_context_keeps_nobody_from_help_and_contexts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAGOMAN_CONTEXT", "gone")
    assert dragoman("services") == 2
    assert dragoman("services", "--help") == 0
    assert dragoman("context", "list") == 0
