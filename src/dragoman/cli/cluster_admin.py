"""`dragoman cluster backup / restore / remove`: copies of the ledger, and nodes that are gone."""

from dataclasses import asdict
from pathlib import Path

import typer

from dragoman.cli.broker_files import CONFIG, DATA, find_settings
from dragoman.cli.cluster import WITHIN, ClusterCommand
from dragoman.cli.cluster import app as app
from dragoman.cli.output import AS_JSON, print_json


@app.command()
def backup(
    folder: Path = typer.Argument(..., help="A new folder for the backup."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    within: float = WITHIN,
    as_json: bool = AS_JSON,
) -> None:
    """Copy this node's copy of the ledger, while it runs, and verify it.

    Says how many records the copy lacks, if this node is behind the others.
    """
    from dragoman.ledger.audit import read_key
    from dragoman.ledger.backup import backup as back_up

    settings = find_settings(config, data)
    node = ClusterCommand(settings, within)
    rows = node.run(lambda: node.ask_all("status"))
    report = back_up(settings.data, folder, read_key(settings.security.audit_key))
    missing = max(0, *(int(row["last"]) for row in rows), 0) - report.last
    if as_json:
        print_json(asdict(report) | {"missing": max(0, missing)})
        return
    typer.echo(f"{folder}: records {report.first} to {report.last}, {report.segments} segments")
    if missing > 0:
        typer.echo(f"this node was {missing} records behind; make the backup on the leader")
    typer.echo(f"verified; head {report.last}:{report.head}")


@app.command()
def restore(
    folder: Path = typer.Argument(..., help="A backup of a node, or of a single broker."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    as_json: bool = AS_JSON,
) -> None:
    """Let this node begin a new cluster with the records of a backup.

    All nodes must be stopped, and their data folders empty. Start this node first: it writes the
    records to the new stream, and the other nodes copy them.
    """
    from dragoman.ledger.audit import read_key
    from dragoman.ledger.backup import restore as copy_back
    from dragoman.ledger.layout import LEDGER_FILE
    from dragoman.ledger.reseed import prepare_restored

    settings = find_settings(config, data)
    if (settings.data / "cluster" / "jetstream").exists():
        raise ValueError(
            f"{settings.data} has a part of a cluster's stream already; stop all nodes and move "
            "their data folders away first"
        )
    report = copy_back(folder, settings.data, read_key(settings.security.audit_key))
    prepare_restored(settings.data / LEDGER_FILE)
    if as_json:
        print_json(asdict(report))
        return
    typer.echo(f"{settings.data}: records {report.first} to {report.last}, verified")
    typer.echo("Start this node first, then the others with empty data folders.")


@app.command()
def remove(
    gone: str = typer.Argument(
        ..., help="The name of a node that will not come back.", metavar="NODE"
    ),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    within: float = WITHIN,
    as_json: bool = AS_JSON,
) -> None:
    """Take a node that is gone for ever out of the cluster, so that another one may replace it.

    The node must not run. A majority of the nodes must. Then start the new node: it gets the copy.
    """
    from dragoman.server.cluster_removal import remove_node

    node = ClusterCommand(find_settings(config, data), within)
    rows = node.run(lambda: node.ask_all("status"))
    if any(row["node"] == gone for row in rows):
        raise ValueError(f"node {gone} answers; stop it first")
    remove_node(node.section, node.data, gone)
    if as_json:
        print_json({"removed": gone})
    else:
        typer.echo(f"{gone} is no longer part of the cluster")
