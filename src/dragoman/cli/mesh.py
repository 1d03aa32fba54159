"""`dragoman mesh`: the brokers that work for this one, and this one for them."""

from collections.abc import Mapping
from typing import Any, Final

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import AS_JSON, URL, print_json, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="Brokers that work for each other. Link two with `dragoman up --mesh-listen ENDPOINT` on"
    " one and `dragoman up --mesh mesh://HOST:PORT` on the other.",
)

#: The columns of the table; `--json` has all fields.
_SHOWN: Final = ("broker", "state", "url", "services", "offered", "jobs", "detail")


@app.command()
def status(url: str = URL, as_json: bool = AS_JSON) -> None:
    """List the neighbours of a broker: is the link up, what they offer, how many jobs they have.

    `services` is what this broker takes from them, `offered` how many services it offers them.
    """
    found = ask_broker(url, "show_mesh")
    if as_json:
        print_json(found)
        return
    if not found["broker"]:
        typer.echo("this broker is in no mesh; `dragoman mesh --help` says how to link it")
        return
    typer.echo(f"this is broker {found['broker']}")
    print_rows([_shown(row) for row in found["neighbours"]], False, "no neighbours")


def _shown(row: Mapping[str, Any]) -> dict[str, object]:
    shown = {**row, "services": ", ".join(row["offers"])}
    return {name: shown[name] for name in _SHOWN}
