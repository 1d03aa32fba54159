"""`dragoman ledger`: back up, restore, verify and repair the ledger."""

from dataclasses import asdict
from pathlib import Path

import typer

from dragoman.cli.broker_call import ask_broker
from dragoman.cli.broker_files import CONFIG, DATA, NAMESPACE, find_settings
from dragoman.cli.output import AS_JSON, URL, print_done, print_json

app = typer.Typer(no_args_is_help=True, help="Back up, restore, verify, repair or seal the ledger.")


@app.command()
def seal(url: str = URL, as_json: bool = AS_JSON) -> None:
    """Tell the running broker to export its records now, for the pipeline.

    It does so by itself every minute (`seal_age`) and when it stops.
    """
    # A process of its own writes the segment; it gives way to the broker and its peers.
    done = ask_broker(url, "seal", within=60.0)
    print_done(f"sealed records 1 to {done['upto']:,}", as_json, **done)


@app.command()
def backup(
    folder: Path = typer.Argument(..., help="A new folder for the backup."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Copy the ledger and its sealed segments, also while the broker runs; verify the copy."""
    from dragoman.ledger.audit import read_key
    from dragoman.ledger.backup import backup as back_up

    settings = find_settings(config, data, namespace)
    report = back_up(settings.data, folder, read_key(settings.security.audit_key))
    if as_json:
        print_json(asdict(report))
        return
    typer.echo(f"{folder}: records {report.first} to {report.last}, {report.segments} segments")
    typer.echo(f"verified; head {report.last}:{report.head}")


@app.command()
def restore(
    folder: Path = typer.Argument(..., help="The folder of a backup."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Copy a backup into the data folder of a stopped broker, which must have no ledger."""
    from dragoman.ledger.audit import read_key
    from dragoman.ledger.backup import restore as copy_back

    settings = find_settings(config, data, namespace)
    report = copy_back(folder, settings.data, read_key(settings.security.audit_key))
    if as_json:
        print_json(asdict(report))
        return
    typer.echo(f"{settings.data}: records {report.first} to {report.last}, verified")
    typer.echo("Jobs that ended after the backup run again if they were open in it.")


@app.command()
def verify(
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Make every check: those of `up`, every record and body, every segment. Exit 1: problems."""
    from dragoman.ledger.audit import read_key
    from dragoman.ledger.checks import problems_of

    settings = find_settings(config, data, namespace)
    problems = problems_of(settings.data, read_key(settings.security.audit_key))
    if as_json:
        print_json({"is_sound": not problems, "problems": problems})
    for problem in () if as_json else problems:
        typer.echo(problem)
    if not as_json:
        typer.echo("sound" if not problems else "NOT SOUND; see `dragoman ledger repair --help`")
    if problems:
        raise typer.Exit(1)


@app.command()
def repair(
    folder: Path = typer.Argument(..., help="A new folder for the repaired ledger."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Build a sound ledger from what a damaged one still has; list what is lost.

    Stop the broker first. The damaged files stay unchanged. Open jobs whose history may have lost a
    record end as `dead`. To use the result, start the broker with `--data FOLDER`.
    """
    from dragoman.ledger.audit import read_key
    from dragoman.server.repair import repair as rebuild

    settings = find_settings(config, data, namespace)
    key = read_key(settings.security.audit_key)
    report = rebuild(settings.data, folder, key)
    if as_json:
        print_json(asdict(report))
        return
    typer.echo(f"{folder}: {report.saved} of the records {report.first} to {report.last} saved")
    for label, found in (
        ("lost records", report.lost),
        ("records whose body is lost", report.lost_bodies),
        ("records of broken histories, kept as notes", report.detached),
        ("jobs that ended as dead", report.dead),
    ):
        typer.echo(f"{label}: {', '.join(map(str, found)) or 'none'}")
