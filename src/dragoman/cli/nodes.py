"""`dragoman nodes`: the compute nodes, and letting them in or keeping them out."""

from typing import Any, Final

import typer

from dragoman.cli.jobs import MANAGEMENT
from dragoman.cli.output import AS_JSON, URL, print_json, print_rows
from dragoman.sdk.blocking import Client

app = typer.Typer(
    no_args_is_help=True,
    help="Look at compute nodes (NCL), and approve or reject them. With `manual_approval` in"
    " the settings, a new node gets no work before it is approved.",
)

NODE = typer.Argument(help="The node's id, as `dragoman nodes list` shows it.")
#: What a person wants to see first; `--json` has the rest.
_SHOWN: Final = ("node", "membership", "status", "services", "slots", "cpu", "free_cpu")


def _ask(url: str, task: str, **kwargs: Any) -> Any:
    with Client(url) as client:
        return client.call(MANAGEMENT, task, timeout=10.0, **kwargs)


@app.command("list")
def list_(url: str = URL, as_json: bool = AS_JSON) -> None:
    """List the compute nodes that are known, connected or not."""
    rows = _ask(url, "list_nodes")
    shown = rows if as_json else [{name: row[name] for name in _SHOWN} for row in rows]
    print_rows(shown, as_json, "no compute nodes")


@app.command()
def approve(node: str = NODE, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Let a node have work, also one that was rejected before."""
    _tell(_ask(url, "approve_node", node=node), as_json)


@app.command()
def reject(node: str = NODE, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Send a node away; its work goes to others, and its handshakes are refused."""
    _tell(_ask(url, "reject_node", node=node), as_json)


def _tell(said: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(said)
    else:
        typer.echo(f"{said['node']} is {said['membership']}")
