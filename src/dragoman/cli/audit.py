"""`dragoman audit`: prove that the account is what was written."""

from pathlib import Path

import typer

from dragoman.cli.broker_files import CONFIG, DATA, find_settings
from dragoman.cli.output import AS_JSON, print_json

app = typer.Typer(no_args_is_help=True, help="Prove that the ledger is what was written.")


@app.command()
def verify(
    ledger: Path | None = typer.Argument(None, help="A ledger's file; the broker's if not given."),
    head: str = typer.Option("", help="What an earlier audit printed: SEQ:LINK."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    as_json: bool = AS_JSON,
) -> None:
    """Check every record and body, beside a running broker or without.

    Finds any record that was changed, removed or put in another place; ends with 1 if there is
    one. Keep the head that it prints where nobody who can write the ledger can write, and give it
    to the next audit: then not even making the whole chain anew goes unnoticed.
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
    """Read a head that an earlier audit printed."""
    if not text:
        return None
    seq, _, link = text.partition(":")
    if not seq.isdigit() or not link:
        raise ValueError(f"{text!r} is no head; it is printed as SEQ:LINK")
    return int(seq), link
