"""`dragoman context`: named brokers with URL and credentials."""

from pathlib import Path

import typer

from dragoman.cli.contexts import Contexts, contexts_file
from dragoman.cli.output import AS_JSON, print_rows
from dragoman.sdk.url import parse_url

app = typer.Typer(
    no_args_is_help=True,
    help="Name the brokers you use: URL, credentials and output. Flags and environment variables"
    " win over the context.",
)
NAME = typer.Argument(help="The name of a context.")


@app.command()
def add(
    name: str = NAME,
    url: str = typer.Option(..., help="Broker and dialect, e.g. https://broker.example:8420."),
    key: Path | None = typer.Option(None, help="Your credentials for it."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON by default in this context."),
) -> None:
    """Add a context, or replace one. The first one becomes the current one."""
    parse_url(url)
    credentials = str(key.resolve()) if key is not None else ""
    Contexts(contexts_file()).add(name, {"url": url, "key": credentials, "json": as_json})
    typer.echo(f"added {name}: {url}")


@app.command()
def use(name: str = NAME) -> None:
    """Make a context the current one."""
    found = Contexts(contexts_file())
    found.use(name)
    typer.echo(f"using {name}: {found.get(name)['url']}")


@app.command("list")
def list_(as_json: bool = AS_JSON) -> None:
    """List the contexts."""
    found = Contexts(contexts_file())
    rows = [
        {"name": name, "current": "*" if name == found.current else "", **members}
        for name, members in found.by_name.items()
    ]
    print_rows(rows, as_json, "no contexts; make one with `dragoman context add`")


@app.command()
def remove(name: str = NAME) -> None:
    """Remove a context."""
    Contexts(contexts_file()).remove(name)
    typer.echo(f"removed {name}")
