"""Every command that ends by itself has `--json`."""

from typing import Any

import pytest
import typer.main

from dragoman.cli.main import app

#: Commands that run until they are stopped, or whose output is a report of their own.
WITHOUT = {"top", "up", "worker", "spark-worker", "demo", "init", "pipeline"}


def commands(group: Any, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        path = f"{prefix}{name}"
        found |= commands(command, f"{path} ") if hasattr(command, "commands") else {path: command}
    return found


COMMANDS = commands(typer.main.get_command(app))


@pytest.mark.parametrize(
    "name", [n for n in COMMANDS if n.split()[0] not in WITHOUT and not n.startswith("context ")]
)
def test_a_command_has_json(name: str) -> None:
    assert "--json" in [option for each in COMMANDS[name].params for option in each.opts]
