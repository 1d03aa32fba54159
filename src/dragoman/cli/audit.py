"""`dragoman audit`: verify the ledger's hash chain."""

from pathlib import Path

import typer

from dragoman.cli.broker_files import CONFIG, DATA, find_settings
from dragoman.cli.output import AS_JSON, print_json

app = typer.Typer(no_args_is_help=True, help="Verify that the ledger is unchanged.")


@app.command()
def verify(
    ledger: Path | None = typer.Argument(None, help="A ledger's file; the broker's if not given."),
    head: str = typer.Option("", help="The head that an earlier audit printed: SEQ:LINK."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    as_json: bool = AS_JSON,
) -> None:
    """Check every record and body, whether the broker runs or not.

    Finds records that were changed, removed or moved; exits with 1 if there is one. Store the
    printed head where users who can write the ledger cannot write, and pass it to the next audit.
    Then even a chain that was rebuilt as a whole is found.
    """
    from dragoman.ledger.audit import audit, read_key
    from dragoman.server.server import LEDGER_FILE

    settings = find_settings(config, data)
    path = ledger or settings.data / LEDGER_FILE
    verdict = audit(path, read_key(settings.security.audit_key), read_head(head))
    if as_json:
        print_json(
            {
                "is_sound": verdict.is_sound,
                "first": verdict.first,
                "last": verdict.last,
                "head": f"{verdict.last}:{verdict.head}",
                "unlinked": verdict.unlinked,
                "findings": [{"seq": f.seq, "what": f.what} for f in verdict.findings],
            }
        )
    else:
        for finding in verdict.findings:
            typer.echo(f"record {finding.seq} {finding.what}")
        if verdict.unlinked:
            typer.echo(f"{verdict.unlinked} records are older than the hash chain")
        word = "sound" if verdict.is_sound else "NOT SOUND"
        typer.echo(f"records {verdict.first} to {verdict.last}: {word}")
        typer.echo(f"head {verdict.last}:{verdict.head}")
    if not verdict.is_sound:
        raise typer.Exit(1)


def read_head(text: str) -> tuple[int, str] | None:
    """Parse a head that an earlier audit printed."""
    if not text:
        return None
    seq, _, link = text.partition(":")
    if not seq.isdigit() or not link:
        raise ValueError(f"{text!r} is not a head; an audit prints it as SEQ:LINK")
    return int(seq), link
