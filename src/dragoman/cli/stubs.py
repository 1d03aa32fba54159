"""`dragoman stubs`: a typed client of a service, as a Python module."""

from pathlib import Path

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import AS_JSON, URL, print_json
from dragoman.sdk.stubs import write_stubs


def stubs(
    service: str = typer.Argument(help="A service with a worker that describes its tasks."),
    out: Path | None = typer.Option(None, "--out", "-o", help="The file to write; else printed."),
    is_async: bool = typer.Option(False, "--async", help="A client for `AsyncClient`."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Write a typed client of a service: a class whose methods are its tasks.

    The worker of the service describes its tasks. A type checker then finds wrong names and
    arguments before the program runs. `--json` prints the description itself.

    `dragoman stubs math --out math_client.py`
    """
    tasks = ask_broker(url, "show_tasks", service=service)
    if as_json:
        print_json(tasks)
        return
    text = write_stubs(service, tasks, is_async=is_async)
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out}: {len(tasks)} tasks of {service}")
