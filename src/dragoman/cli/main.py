"""`dragoman`: the command line.

Exit codes: 0 ok, 1 the job failed, 2 wrong usage, 3 the broker cannot be reached, 4 denied, 5 timed
out.
"""

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import structlog
import typer
from typer.core import TyperGroup

from dragoman.cli import (
    audit,
    cluster_admin,
    context,
    enrol,
    files,
    init,
    inventory,
    jobs,
    keys,
    ledger,
    listings,
    mesh,
    nodes,
    ping,
    pipeline,
    policy,
    queue,
    settings,
    spark,
    status,
    stubs,
    up,
    worker,
)
from dragoman.cli.contexts import Contexts, contexts_file
from dragoman.cli.demo.command import demo
from dragoman.cli.doctor.command import doctor
from dragoman.cli.examples import add_examples
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.top.command import top
from dragoman.sdk.credentials import FILE_VARIABLE, SERVER_VARIABLE

#: Whether the command line asks for help, in the meta data of its context.
_IS_HELP: Final = "dragoman.is_help"


class _Group(TyperGroup):
    """Notes whether help is asked for: the callback below does not see the command's arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_IS_HELP] = "--help" in args
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="dragoman",
    cls=_Group,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="One service broker that speaks five published protocols. "
    "Start one with `dragoman up`, workers with `dragoman worker`, and give them work with "
    "`dragoman call`.",
    epilog="Exit codes: 0 ok, 1 the job failed, 2 wrong usage, 3 the broker cannot be reached, "
    "4 denied, 5 timed out.",
)
app.command("up")(up.up)
app.command("worker")(worker.worker)
app.command("spark-worker")(spark.spark_worker)
_COMMANDS: tuple[Callable[..., None], ...] = (
    *(jobs.call, jobs.submit, jobs.result, jobs.cancel, jobs.why, jobs.forget),
    *(queue.pause, queue.resume, queue.drain, queue.undrain),
    *(listings.services, listings.workers, listings.clients, listings.jobs, listings.events),
)
app.add_typer(queue.schedule_app, name="schedule")
app.add_typer(queue.dead_app, name="dead")
app.add_typer(inventory.app, name="inventory")
app.add_typer(files.app, name="files")
app.add_typer(nodes.app, name="nodes")
app.add_typer(mesh.app, name="mesh")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(keys.app, name="keys")
app.add_typer(policy.app, name="policy")
app.add_typer(audit.app, name="audit")
app.add_typer(cluster_admin.app, name="cluster")
app.add_typer(context.app, name="context")
app.add_typer(ledger.app, name="ledger")
app.command("forget-result")(jobs.forget_result)
app.command("init")(init.init)
app.command("enrol")(enrol.enrol)
app.command("ping")(ping.ping)
app.command("stubs")(stubs.stubs)
app.command("demo")(demo)
app.command("doctor")(doctor)
app.command("settings")(settings.settings)
app.command("status")(status.status)
app.command("top")(top)
for _command in _COMMANDS:
    app.command(_command.__name__)(_command)
add_examples(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {version('dragoman')}")
        raise typer.Exit


@app.callback()
def _root(
    asked: typer.Context,
    show_version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    key: Path | None = typer.Option(
        None,
        "--key",
        envvar=FILE_VARIABLE,
        help="Your credentials (a file of `dragoman keys new`), if the broker requires them.",
    ),
    server_key: str = typer.Option(
        "",
        "--server-key",
        envvar=SERVER_VARIABLE,
        help="The broker's public CURVE key, if the credentials file does not contain it.",
    ),
    use_context: str = typer.Option(
        "", "--context", envvar="DRAGOMAN_CONTEXT", help="A broker of `dragoman context list`."
    ),
) -> None:
    """Pass credentials and context to the command, and to the processes it starts."""
    for name, value in ((FILE_VARIABLE, str(key or "")), (SERVER_VARIABLE, server_key)):
        if value:
            os.environ[name] = value
    # A stale context must not keep a user from the help, or from choosing another one.
    if asked.invoked_subcommand != "context" and not asked.meta[_IS_HELP]:
        Contexts(contexts_file()).apply(use_context)


def main() -> None:
    """Run the command line and exit with its code."""
    # The output of a command is data, perhaps JSON: log lines go to standard error.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    sys.exit(run_to_exit_code(app))
