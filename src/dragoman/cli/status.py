"""The `dragoman status` command: whether a broker takes jobs, and what is wrong with it."""

import time
from typing import Any, Final

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import AS_JSON, URL, duration, print_json

_MEANING: Final = {
    "ready": "ready: it takes jobs",
    "draining": "draining: it stops, and takes no new jobs",
    "blocked": "blocked: it can acknowledge nothing",
}
_COUNTS: Final = ("open_jobs", "succeeded", "failed", "expired", "cancelled", "dead", "refused")


def status(url: str = URL, as_json: bool = AS_JSON) -> None:
    """Tell whether the broker takes jobs, what is wrong with it, and how many jobs it had.

    Exits with 0 if the broker is ready, also if a part of it fails (sealing, say), and with 1 if it
    takes no jobs. GET /readyz tells the same to load balancers and probes.
    """
    found = ask_broker(url, "show_status")
    if as_json:
        print_json(found)
    else:
        _print(found)
    if found["status"] != "ready":
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    typer.echo(_MEANING.get(found["status"], found["status"]))
    for each in found["troubles"]:
        typer.echo(f"{each['part']}: {each['reason']}, for {duration(time.time() - each['since'])}")
        typer.echo(f"  {each['detail']}")
    counts = ", ".join(f"{name.replace('_', ' ')} {found['totals'][name]}" for name in _COUNTS)
    typer.echo(f"jobs: {counts}")
    for name, state in found.get("namespaces", {}).items():
        typer.echo(f"namespace {name}: {state}")
