"""The `dragoman demo` command."""

import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dragoman.cli.demo.steps import bridge, crash, pipeline, totals
from dragoman.sdk.errors import DragomanError
from dragoman.testing.fabric import CheckFailed, Fabric, client_dialects, worker_dialects

#: The usual exit code after Ctrl-C.
INTERRUPTED: Final = 130


def demo(
    folder: Path | None = typer.Option(None, help="The folder to use; a new one if not given."),
    keep: bool = typer.Option(False, help="Leave broker and workers running at the end."),
    spark: bool = typer.Option(True, help="Run the Spark pipeline over the ledger at the end."),
) -> None:
    """Show everything the broker does, in one finite run.

    Starts a broker and a worker of every dialect, and calls each worker with a client of every
    dialect. Kills a worker and the broker during work and counts the results. Then runs the Spark
    pipeline over the ledger. Exits with 0 only if every check passed.
    """
    console = Console()
    place = folder or Path(tempfile.mkdtemp(prefix="dragoman-demo-"))
    fabric = Fabric(place)
    started = time.monotonic()
    has_held = False
    # SIGTERM must stop the demo's processes too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _show(console, fabric, spark=spark, keep=keep)
        has_held = True
    except (CheckFailed, DragomanError, OSError) as error:
        console.print(f"[red]the demo failed:[/] {error}\nlogs are in {place}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print(f"\nstopping; logs are in {place}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if not (keep and has_held):
            _stop(fabric)
    console.print(f"[green]all checks passed[/], in {time.monotonic() - started:.0f} s")
    if keep:
        console.print(fabric.describe())
        console.print(f"stop it with: pkill -f {place}")
    elif folder is None and not spark:
        shutil.rmtree(place, ignore_errors=True)


def _stop(fabric: Fabric) -> None:
    """Stop every process; after a second Ctrl-C, do not wait for them."""
    try:
        fabric.stop()
    except KeyboardInterrupt:
        fabric.kill()


def _show(console: Console, fabric: Fabric, *, spark: bool, keep: bool) -> None:
    console.print(f"[bold]1.[/] a broker and a worker of every dialect, in {fabric.folder}")
    fabric.start_broker()
    for dialect in worker_dialects():
        fabric.start_worker(dialect, f"demo-{dialect}", f"demo-{dialect}-1")
    fabric.wait_for([f"demo-{d}" for d in worker_dialects()])
    console.print("[bold]2.[/] a client of every dialect uses a worker of every dialect")
    pairs = _bridge_with_table(console, fabric)
    if not console.is_terminal:
        # A live table ends its last line only where it can move the cursor.
        console.print()
    console.print(f"   {pairs} pairs: each value came back equal, each failure as a failure")
    console.print("[bold]3.[/] a worker and the broker are killed during work")
    crash(fabric, lambda text: console.print(f"   {text}"))
    counted = totals(fabric)
    console.print(
        f"   the ledger: {counted['records']} records of {counted['jobs']} jobs:"
        f" {counted['succeeded']} succeeded, {counted['failed']} failed on purpose,"
        f" {counted['requeued']} times a job went to another worker"
    )
    if spark and not keep:
        fabric.stop()
        console.print("[bold]4.[/] Spark turns the ledger into tables, an audit and a report")
        report = pipeline(fabric)
        console.print(f"   the report: {report}")


def _bridge_with_table(console: Console, fabric: Fabric) -> int:
    callers, workers = client_dialects(), worker_dialects()
    cells: dict[tuple[str, str], str] = {}

    def table() -> Table:
        made = Table("client \\ worker", *workers)
        for caller in callers:
            made.add_row(caller, *(cells.get((caller, worker), "") for worker in workers))
        return made

    with Live(table(), console=console, refresh_per_second=8) as live:

        def tell(caller: str, worker: str, text: str) -> None:
            cells[caller, worker] = text
            live.update(table())

        return bridge(fabric, tell)
