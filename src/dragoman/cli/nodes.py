"""`dragoman nodes`: list, approve and reject compute nodes."""

from typing import Final

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.output import AS_JSON, URL, print_json, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="List compute nodes (NCL), and approve or reject them. With `manual_approval` in"
    " the settings, a new node gets no work before it is approved.",
)

NODE = typer.Argument(help="The node's id, as `dragoman nodes list` shows it.")
#: The columns of the table; `--json` has all fields.
_SHOWN: Final = ("node", "membership", "status", "services", "slots", "cpu", "free_cpu")


@app.command("list")
def list_(url: str = URL, as_json: bool = AS_JSON) -> None:
    """List the compute nodes that are known, connected or not."""
    rows = ask_broker(url, "list_nodes")
    shown = rows if as_json else [{name: row[name] for name in _SHOWN} for row in rows]
    print_rows(shown, as_json, "no compute nodes")


@app.command()
def approve(node: str = NODE, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Approve a node, even if it was rejected before."""
    _print_membership(ask_broker(url, "approve_node", node=node), as_json)


@app.command()
def reject(node: str = NODE, url: str = URL, as_json: bool = AS_JSON) -> None:
    """Reject a node; its jobs go to other nodes, and its handshakes are refused."""
    _print_membership(ask_broker(url, "reject_node", node=node), as_json)


def _print_membership(answer: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['node']} is {answer['membership']}")
