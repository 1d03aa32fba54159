"""The examples in the help are commands that can be typed."""

import shlex
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from dragoman.cli.examples import EXAMPLES, example_of
from dragoman.cli.main import app


def command(words: list[str]) -> tuple[Any, list[str]]:
    """Return a command, and the words after its name."""
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_the_arguments_and_options_that_the_command_takes(name: str) -> None:
    found, rest = command(shlex.split(example_of(name))[1:])
    context = found.make_context(name, rest, resilient_parsing=False)
    assert context.params


def test_the_help_of_a_command_ends_with_its_example() -> None:
    said = CliRunner().invoke(app, ["keys", "approve", "--help"]).output
    words = " ".join(said.split())
    assert words.endswith("Example: dragoman keys approve --pending 'switch-*' --role worker")
