"""`dragoman inventory`: show and change the inventory of workers."""

import json
from collections.abc import Mapping
from typing import Any

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import AS_JSON, URL, print_json, print_rows

app = typer.Typer(no_args_is_help=True, help="Show and change the inventory of workers.")
INVENTORY = "sid.service.broker"

NAME = typer.Argument(help="A worker's name.")
PATTERN = typer.Argument(help="A worker's name, or a pattern such as 'probe-*'.")
PATH = typer.Argument(help="A path in it: names separated by dots.")
VERSION = typer.Option(None, help="Change it only if it is at this version.")


def _ask(url: str, task: str, **kwargs: Any) -> Any:
    return ask_broker(url, task, service=INVENTORY, **kwargs)


@app.command()
def show(url: str = URL, as_json: bool = AS_JSON) -> None:
    """Print the version, the patterns, and errors in the files, if any."""
    print_json(_ask(url, "show"))


@app.command()
def get(
    name: str = NAME,
    path: str = typer.Argument("", help=PATH.help),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Print a worker's inventory, without secrets."""
    print_json(_ask(url, "get", name=name, path=path))


@app.command("set")
def set_(
    pattern: str = PATTERN,
    path: str = PATH,
    value: str = typer.Argument(help="JSON, or plain text."),
    version: int | None = VERSION,
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Set the value at a path for all workers that match a pattern."""
    arguments = {"pattern": pattern, "path": path, "value": _value(value), "version": version}
    print_json(_ask(url, "set", **arguments))


@app.command()
def delete(
    pattern: str = PATTERN,
    path: str = PATH,
    version: int | None = VERSION,
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Delete the value at a path for all workers that match a pattern."""
    print_json(_ask(url, "delete", pattern=pattern, path=path, version=version))


@app.command()
def undo(
    change: int | None = typer.Argument(None, help="The change; the last if not given."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Undo a change."""
    print_json(_ask(url, "undo", version=change))


@app.command()
def history(
    limit: int = typer.Option(20, min=1, help="Most changes to list."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List the last changes, the newest first."""
    found = _ask(url, "history", limit=limit)
    rows = found if as_json else [_row(change) for change in found]
    print_rows(rows, as_json, "no changes")


@app.command()
def reload(url: str = URL, as_json: bool = AS_JSON) -> None:
    """Read the files again. If one is broken, print its error and keep the last good files."""
    print_json(_ask(url, "reload"))


def _row(change: Mapping[str, Any]) -> dict[str, object]:
    done = [f"{o['op']} {o['pattern']} {'.'.join(o['path'])}" for o in change["operations"]]
    what = f"undo of {change['undoes']}" if change["undoes"] else "; ".join(done)
    return {"version": change["version"], "by": change["by"], "what": what,
            "undone by": change["undone"] or ""}  # fmt: skip


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
