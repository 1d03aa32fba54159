"""The `dragoman doctor` command."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console

from dragoman.cli.broker_files import CONFIG
from dragoman.cli.doctor import machine
from dragoman.cli.doctor.check_results import BAD, WARNING, Check, CheckResult, bad, ok, run_checks
from dragoman.cli.output import AS_JSON, print_json

if TYPE_CHECKING:
    from dragoman.server.settings import BrokerSettings

_COLOURS: Final = {"ok": "green", WARNING: "yellow", BAD: "red"}


def doctor(
    config: Path | None = CONFIG,
    data: Path | None = typer.Option(None, help="Folder of the ledger, as for `dragoman up`."),
    as_json: bool = AS_JSON,
) -> None:
    """Check whether a broker can run on this machine.

    Checks Python and its packages, the NATS server, Java and Spark, the ports, the data folder, the
    fsync latency of its disk, the other nodes of its cluster, and the clock. `ok` needs no action.
    With `warning` the broker works, or only a part does not. With `bad` it would not start or not
    keep its guarantees. Exits with 0 if nothing is bad, else with 1.
    """
    # Imported here: the other commands start faster without the server.
    from dragoman.cli.doctor.broker_checks import BrokerChecks

    settings, first = _settings(config, data)
    broker = BrokerChecks(settings)
    checks: tuple[Check, ...] = (
        *(machine.python, machine.packages, machine.nats_server, machine.java),
        *(machine.clock, machine.open_files, broker.ports, broker.running),
        *(broker.disk, broker.ledger, broker.cluster, broker.namespaces),
    )
    results = [first, *run_checks(checks)]
    if as_json:
        print_json([{"what": f.what, "verdict": f.verdict, "words": f.text} for f in results])
    else:
        _print(results)
    if any(f.verdict == BAD for f in results):
        raise typer.Exit(1)


def _settings(config: Path | None, data: Path | None) -> "tuple[BrokerSettings, CheckResult]":
    """Read the settings as `dragoman up` does; an error in them is a bad result."""
    from dragoman.server.settings import BrokerSettings
    from dragoman.server.settings_sources import load

    flags: dict[str, Any] = {"data": data} if data is not None else {}
    try:
        return load(config, **flags), ok("settings", str(config or "defaults"))
    except ValueError as error:
        text = " ".join(str(error).split())
        return BrokerSettings.model_construct(**flags), bad("settings", text)


def _print(results: list[CheckResult]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for each in results:
        colour = _COLOURS[each.verdict]
        # Padded before it is coloured; the text may contain brackets that are not markup.
        console.print(f"[{colour}]{each.verdict:8}[/]{each.what:18}", end="")
        console.print(each.text, markup=False)
    worst = sum(f.verdict == BAD for f in results)
    some = sum(f.verdict == WARNING for f in results)
    console.print(f"{len(results)} checks: {worst} bad, {some} with a warning")
