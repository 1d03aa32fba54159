"""`dragoman worker`: run functions as a worker."""

import asyncio
import importlib
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import typer

from dragoman.cli.output import URL
from dragoman.cli.registration import report_registration
from dragoman.cli.reload import run_reloading
from dragoman.cli.systemd import SystemdNotifier
from dragoman.cli.up import start_logging

if TYPE_CHECKING:
    from dragoman.sdk.worker import Worker

log = structlog.get_logger("dragoman.worker")


def worker(
    what: str = typer.Argument(
        metavar="MODULE[:OBJECT]", help="A module, or a function or object in it."
    ),
    service: str = typer.Option(..., help="The service name."),
    url: str = URL,
    name: str | None = typer.Option(None, help="The worker's name; generated if not given."),
    concurrency: int = typer.Option(8, min=1, help="Jobs to run at the same time."),
    prefetch: int | None = typer.Option(
        None,
        min=0,
        help="Jobs that may wait here while all threads are busy, if jobs are short; "
        "by default eight for each that runs. 0: none.",
    ),
    isolation: str | None = typer.Option(
        None,
        help="Where tasks run: thread, process or async. By default `async def` functions share an "
        "event loop and others run in threads.",
    ),
    processes: int | None = typer.Option(
        None, min=1, help="Most task processes; as many as --concurrency if not given."
    ),
    max_jobs_per_process: int | None = typer.Option(
        None, min=1, help="Replace a task process after so many jobs."
    ),
    log_lines: bool = typer.Option(
        False,
        "--log-lines",
        help="Send what a task prints to its job: the dashboard and `dragoman call` show it.",
    ),
    reload: bool = typer.Option(
        False,
        "--reload",
        help="For development: start again when a Python file below this folder changes. Running "
        "jobs have 5 s to finish; then they are handed back.",
    ),
    log_level: str = typer.Option("info", help="debug, info, warning or error."),
) -> None:
    """Run functions as a worker on any dialect.

    A module or object offers its public functions as tasks of the same name. After the first Ctrl-C
    or SIGTERM the worker finishes its jobs and takes no more; after the second it returns them.

    `dragoman worker tasks --service math` offers the functions of ./tasks.py.
    `dragoman worker tasks --service math --isolation process` runs each job in a child process:
    a cancel stops it, and a crash ends one job.
    `dragoman worker tasks:add --service math --url memo://127.0.0.1:12703` offers one of them.
    """
    # Imported here: the other commands start faster without it.
    from dragoman.sdk.task_output import install
    from dragoman.sdk.tasks import make_task, tasks_of
    from dragoman.sdk.worker import Worker

    start_logging(log_level)
    if reload:
        raise typer.Exit(run_reloading(Path.cwd()))
    if log_lines:
        # The module may set up logging to the standard streams when it is imported.
        install()
    thing = find(what)
    options: dict[str, Any] = {
        "name": name,
        "concurrency": concurrency,
        "prefetch": prefetch,
        "isolation": isolation,
        "processes": processes,
        "max_jobs_per_process": max_jobs_per_process,
        "log_lines": log_lines,
    }
    if isinstance(thing, Worker) and (isolation or processes or max_jobs_per_process or log_lines):
        where = "isolation, processes and log_lines where it is made"
        raise ValueError(f"{what} is a worker: set {where}")
    made = thing if isinstance(thing, Worker) else Worker(url, service, **options)
    if made is not thing:
        for task in [make_task(thing)] if _is_function(thing) else tasks_of(thing):
            made.tasks.add(task)
    if not made.tasks.names() and made.tasks.fallback is None:
        raise ValueError(f"{what} has no public functions to offer")
    offered = ", ".join(made.tasks.names()) or "every call"
    log.info("offering", worker=made.name, service=", ".join(made.services), tasks=offered)
    asyncio.run(_serve(made))


async def _serve(worker: "Worker") -> None:
    reporting = asyncio.create_task(report_registration(worker))
    try:
        await SystemdNotifier().accompany(
            worker.serve_until_signal(), lambda: worker.is_registered, lambda: worker.is_draining
        )
    finally:
        reporting.cancel()


def _is_function(thing: object) -> bool:
    return callable(thing) and not isinstance(thing, type) and hasattr(thing, "__code__")


def own_frames(error: BaseException) -> str:
    """Write a traceback with the user's own frames only, without those of Python and of ours."""
    ours = (str(Path(__file__).parents[1]), "<frozen importlib", sysconfig.get_path("stdlib"))
    frames = traceback.extract_tb(error.__traceback__)
    lines = traceback.format_list(f for f in frames if not f.filename.startswith(ours))
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


def find(what: str) -> Any:
    """Import MODULE:OBJECT, also from the current folder."""
    module_name, _, attribute = what.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        thing: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise ValueError(f"{module_name} failed to import:\n{own_frames(error)}") from None
        raise ValueError(f"no module {module_name!r} in this folder or on the path") from None
    except Exception as error:
        raise ValueError(f"{module_name} failed to import:\n{own_frames(error)}") from None
    for part in attribute.split(".") if attribute else ():
        if not hasattr(thing, part):
            raise ValueError(f"{module_name} has no {part!r}")
        thing = getattr(thing, part)
    return thing
