"""The command line as a whole."""

import pytest
from tests.cli.conftest import Run

from dragoman.cli.main import app

COMMANDS = [c.name for c in app.registered_commands if c.name]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_that_teaches(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Usage" in out


def test_the_version_is_told(run: Run) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("dragoman ")


def test_no_command_shows_the_help(run: Run) -> None:
    _, out, err = run()
    assert "Usage" in out + err
