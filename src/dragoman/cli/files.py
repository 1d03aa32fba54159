"""`dragoman files`: the files a broker shares."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from dragoman.cli.output import AS_JSON, URL, print_done, print_json
from dragoman.sdk.blocking import Client
from dragoman.sdk.files import SCHEME, Files

app = typer.Typer(no_args_is_help=True, help="List, fetch and put the files a broker shares.")

FILE = typer.Argument(help="A file, as nf://path or just the path.")
FOLDER = typer.Argument("", help="A folder, as nf://path or just the path.")


def as_url(text: str) -> str:
    """Complete a path to a URL."""
    return text if text.startswith(SCHEME) else SCHEME + text.lstrip("/")


@app.command("list")
def list_files(
    folder: str = FOLDER,
    recursive: bool = typer.Option(False, "--recursive", "-r", help="Include subfolders."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """List the files in a folder."""
    with Client(url) as client:
        files = Files(client)
        found = files.walk(as_url(folder)) if recursive else files.list(as_url(folder))
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join(found) if found else "no files")


@app.command()
def details(file: str = FILE, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Print size and digests of a file, as JSON."""
    with Client(url) as client:
        print_json(Files(client).details(as_url(file)))


@app.command()
def fetch(
    file: str = FILE,
    destination: Path = typer.Argument(None, help="A file or folder here (default: its name)."),
    url: str = URL,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bar."),
    as_json: bool = AS_JSON,
) -> None:
    """Download a file. Resumes an interrupted download."""
    source = as_url(file)
    name = source.rpartition("/")[2]
    target = destination / name if destination and destination.is_dir() else destination
    with Client(url) as client, _bar(name, quiet) as report:
        found = Files(client).fetch(source, target or Path(name), report)
    print_done(str(found), as_json, file=found)


@app.command()
def put(
    path: Path = typer.Argument(help="A file here."),
    file: str = FILE,
    url: str = URL,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bar."),
    as_json: bool = AS_JSON,
) -> None:
    """Upload a file into a folder that the broker allows."""
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    with Client(url) as client, _bar(path.name, quiet) as report:
        Files(client).put(path, as_url(file), report)
    if as_json:
        print_json({"file": as_url(file)})


@contextmanager
def _bar(name: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, if that is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, size: progress.update(task, completed=done, total=size)
