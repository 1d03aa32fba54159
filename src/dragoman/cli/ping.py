"""`dragoman ping`: does the broker answer, and a service? Also waits for what is starting."""

import time
from typing import Any, Final

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import AS_JSON, URL, print_done
from dragoman.sdk.errors import Unreachable

#: Seconds between attempts.
_PAUSE: Final = 0.2


def ping(
    service: str = typer.Argument("", help="Also ask for a worker of this service."),
    wait: float = typer.Option(0.0, min=0.0, help="Seconds to wait for what is starting."),
    url: str = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Ask the broker for an answer: exit code 3 if there is none, 5 if the service has no worker.

    `dragoman ping --wait 30` returns once the broker answers: for scripts and health checks.
    `dragoman ping math --wait 30` returns once a worker offers `math`.
    """
    started = time.monotonic()
    workers = _count_workers(url, service, started + wait)
    took = time.monotonic() - started
    if service and not workers:
        typer.echo(f"dragoman: {url} answers, but no worker offers {service!r}", err=True)
        raise typer.Exit(5)
    about = f"; {service} has {workers} worker{'s' * (workers != 1)}" if service else ""
    found = {"url": url, "seconds": round(took, 3)}
    if service:
        found |= {"service": service, "workers": workers}
    print_done(f"{url} answers after {took:.1f} s{about}", as_json, **found)


def _count_workers(url: str, service: str, until: float) -> int:
    """Wait until the broker answers and the service, if one is named, has a worker."""
    while True:
        is_last = time.monotonic() + _PAUSE > until
        try:
            rows: list[dict[str, Any]] = ask_broker(url, "list_services")
        except Unreachable:
            if is_last:
                raise
        else:
            count = sum(int(row["workers"]) for row in rows if row["name"] == service)
            if is_last or count or not service:
                return count
        time.sleep(_PAUSE)
