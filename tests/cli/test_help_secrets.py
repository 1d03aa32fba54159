"""`--help` never prints values from the environment."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import typer.main
from tests.canary_watch import Canary

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))


def test_no_help_shows_what_is_in_the_environment(
    canary: Canary, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = dict(commands(typer.main.get_command(app)))
    variables = {
        str(each.envvar) for command in known.values() for each in command.params if each.envvar
    }
    assert "DRAGOMAN_KEY_FILE" in variables
    secrets = [canary("variable") for _ in variables]
    for name, secret in zip(variables, secrets, strict=True):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("COLUMNS", "200")
    for path in known:
        assert run_to_exit_code(partial(app, [*path, "--help"])) == 0
    said = capsys.readouterr().out
    assert said.count("Usage:") >= len(known)
    assert not [secret for secret in secrets if secret in said]
