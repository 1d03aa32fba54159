"""The `dragoman doctor` command."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console

from dragoman.cli.doctor import machine
from dragoman.cli.doctor.findings import BAD, WARNING, Check, CheckResult, bad, ok, run_checks
from dragoman.cli.output import AS_JSON, print_json

if TYPE_CHECKING:
    from dragoman.server.settings import BrokerSettings

_COLOURS: Final = {"ok": "green", WARNING: "yellow", BAD: "red"}


def doctor(
    config: Path | None = typer.Option(None, help="Settings in TOML, as for `dragoman up`."),
    data: Path | None = typer.Option(None, help="Folder of the ledger, as for `dragoman up`."),
    as_json: bool = AS_JSON,
) -> None:
    """Check what a broker needs of this machine, line by line.

    Python and packages, the NATS server, Java and Spark, ports, the data folder and how long its
    disk takes to be sure of a write, the clock. `ok` is well; `warning` works, or is needed for a
    part only; `bad` keeps a broker from starting or from keeping its promises. Exits with 0 if
    nothing is bad, else with 1.
    """
    # Here, not above: the other commands start faster without the server.
    from dragoman.cli.doctor.place import BrokerChecks

    settings, first = _settings(config, data)
    place = BrokerChecks(settings)
    checks: tuple[Check, ...] = (
        *(machine.python, machine.packages, machine.nats_server, machine.java),
        *(machine.clock, machine.open_files, place.ports, place.disk, place.ledger),
    )
    found = [first, *run_checks(checks)]
    if as_json:
        print_json([{"what": f.what, "verdict": f.verdict, "words": f.words} for f in found])
    else:
        _print(found)
    if any(f.verdict == BAD for f in found):
        raise typer.Exit(1)


def _settings(config: Path | None, data: Path | None) -> "tuple[BrokerSettings, CheckResult]":
    """Read the settings as `dragoman up` would; broken ones are a finding like any other."""
    from dragoman.server.settings import BrokerSettings, load

    flags: dict[str, Any] = {"data": data} if data is not None else {}
    try:
        return load(config, **flags), ok("settings", str(config or "defaults"))
    except ValueError as error:
        words = " ".join(str(error).split())
        return BrokerSettings.model_construct(**flags), bad("settings", words)


def _print(found: list[CheckResult]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for each in found:
        colour = _COLOURS[each.verdict]
        # Padded before it is coloured; words of others are not markup.
        console.print(f"[{colour}]{each.verdict:8}[/]{each.what:18}", end="")
        console.print(each.words, markup=False)
    worst = sum(f.verdict == BAD for f in found)
    some = sum(f.verdict == WARNING for f in found)
    console.print(f"{len(found)} checks: {worst} bad, {some} with a warning")
