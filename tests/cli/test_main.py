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


def test_the_help_of_up_names_every_default(run: Run) -> None:
    _, out, _ = run("up", "--help")
    for port in (5555, 5566, 7777, 7776, 12703, 4222, 8420):
        assert str(port) in out
    assert "dragoman-data" in out


def test_the_exit_codes_are_in_the_help(run: Run) -> None:
    _, out, _ = run("--help")
    assert "3 the broker cannot be reached" in " ".join(out.split())


def test_the_version_is_printed(run: Run) -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("dragoman ")


def test_no_command_shows_the_help(run: Run) -> None:
    _, out, err = run()
    assert "Usage" in out + err
