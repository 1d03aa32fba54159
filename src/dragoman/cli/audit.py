"""`dragoman audit`: verify the ledger's hash chain."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dragoman.cli.broker_files import CONFIG, DATA, NAMESPACE, find_settings
from dragoman.cli.output import AS_JSON, print_json

if TYPE_CHECKING:
    from dragoman.server.settings import BrokerSettings

app = typer.Typer(no_args_is_help=True, help="Verify that the ledger is unchanged.")


@app.command()
def verify(
    ledger: Path | None = typer.Argument(None, help="A ledger's file; the broker's if not given."),
    head: str = typer.Option("", help="The head that an earlier audit printed: SEQ:LINK."),
    anchor: Path | None = typer.Option(None, help="A file of anchors that the broker wrote."),
    anchor_key: str = typer.Option("", help="The public key of the anchors, if kept elsewhere."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Check every record and body, whether the broker runs or not.

    Finds records that were changed, removed or moved; exits with 1 if there is one. Store the
    printed head where users who can write the ledger cannot write, and pass it to the next audit.
    Then even a chain that was rebuilt as a whole is found. With --anchor, the ledger is compared
    with every anchor, so that missing records at its end are found, too.
    """
    from dragoman.ledger.audit import audit, read_key
    from dragoman.server.server import LEDGER_FILE

    settings = find_settings(config, data, namespace)
    path = ledger or settings.data / LEDGER_FILE
    known = read_head(head) | (_anchors(settings, anchor, anchor_key) if anchor else {})
    verdict = audit(path, read_key(settings.security.audit_key), known)
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


@app.command()
def anchor(
    to: str = typer.Option("", help="The target; without it, the line is printed."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Write one signed head of the ledger, beside a running broker or without.

    A broker with `[security] anchor` in its settings does this on a schedule. Keep anchors where
    users who can write the ledger cannot write, with the public key that this command prints.
    """
    import time

    from dragoman.ledger.audit import audit, read_key
    from dragoman.server.anchors import open_signing_key, sign
    from dragoman.server.record_targets import open_target
    from dragoman.server.server import LEDGER_FILE

    settings = find_settings(config, data, namespace)
    report = audit(settings.data / LEDGER_FILE, read_key(settings.security.audit_key))
    key = open_signing_key(anchor_key_file(settings))
    line = sign(key, report.last, report.head, time.time())
    public = key.verify_key.encode().hex()
    if to:
        open_target(to).write([line])
    if as_json:
        print_json({"anchor": line.decode().rstrip(), "public_key": public})
        return
    if not to:
        typer.echo(line.decode().rstrip())
    typer.echo(f"public key {public}", err=True)


def anchor_key_file(settings: "BrokerSettings") -> Path:
    """Return the file of the key that signs anchors."""
    from dragoman.server.audit_export import ANCHOR_KEY

    return settings.security.anchor_key or settings.data / ANCHOR_KEY


def _anchors(settings: "BrokerSettings", file: Path, public: str) -> dict[int, str]:
    from dragoman.server.anchors import open_signing_key, read_anchors

    if public:
        return read_anchors(file.read_bytes(), bytes.fromhex(public))
    path = anchor_key_file(settings)
    if not path.exists():
        raise ValueError(f"{path} is missing; pass the public key of the anchors: --anchor-key")
    return read_anchors(file.read_bytes(), open_signing_key(path).verify_key.encode())


def read_head(text: str) -> dict[int, str]:
    """Parse a head that an earlier audit printed."""
    if not text:
        return {}
    seq, _, link = text.partition(":")
    if not seq.isdigit() or not link:
        raise ValueError(f"{text!r} is not a head; an audit prints it as SEQ:LINK")
    return {int(seq): link}
