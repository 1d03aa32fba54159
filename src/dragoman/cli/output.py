"""Output of commands: tables for people, JSON for programs."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

import typer
from rich.console import Console
from rich.table import Table

DEFAULT_URL: Final = "nfp://127.0.0.1:5555"

URL = typer.Option(
    DEFAULT_URL, "--url", envvar="DRAGOMAN_URL", help="Broker and dialect, e.g. zss://host:7777."
)
AS_JSON = typer.Option(False, "--json", envvar="DRAGOMAN_JSON", help="Print JSON for programs.")


def print_json(value: object) -> None:
    """Print a value as JSON; bytes as text if they are UTF-8, else in hex."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def print_done(text: str, as_json: bool, /, **members: object) -> None:
    """Print what a command did: a sentence for people, or its members as JSON."""
    if as_json:
        print_json(members)
    else:
        typer.echo(text)


def print_json_line(value: object) -> None:
    """Print a value as JSON on one line, for programs that read line by line."""
    typer.echo(json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "0x" + value.hex()
    return str(value)


def print_rows(rows: Sequence[Mapping[str, object]], as_json: bool, empty: str) -> None:
    """Print rows as a table, or as a JSON list."""
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        typer.echo(empty)
        return
    table = Table(box=None, header_style="bold")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row.values()))
    # A pipe or a file has no width.
    is_terminal = sys.stdout.isatty()
    Console(width=None if is_terminal else 240).print(table)


def duration(seconds: float) -> str:
    """Write a duration for people: `4.2 s`, `12 min`, `3 h`, `5 d`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    for size, unit in ((86_400, "d"), (3600, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} min"


def ago(at: float) -> str:
    """Write how long ago an instant was."""
    return f"{duration(max(0.0, time.time() - at))} ago"


def local_time(at: float) -> str:
    """Write an instant in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _cell(cell: object) -> str:
    if isinstance(cell, list):
        return ", ".join(map(str, cell))
    return "" if cell is None else str(cell)
