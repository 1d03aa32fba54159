"""`dragoman enrol`: a machine lets itself in, with a one-time token and a key of its own."""

import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import typer

from dragoman.sdk.credentials import SERVER_VARIABLE, Credentials, write_credentials
from dragoman.sdk.errors import Refused, Unreachable

_PATIENCE: Final = 20.0


def enrol(
    url: str = typer.Argument(help="The broker's HTTP door, e.g. https://broker.example:8420."),
    name: str = typer.Option("", help="The name you are to have; must fit the token's globs."),
    out: Path = typer.Option(Path("worker.key"), help="Where the new credentials go."),
    authority: Path | None = typer.Option(
        None, help="The broker's authority, in PEM (from its peers.txt)."
    ),
) -> None:
    """Make a CURVE key here and let it in with a one-time token, read from standard input.

    The token comes from `dragoman keys invite` on the broker's machine. The secret key never leaves
    this one. Say the broker's public key with `--server-key` before the command, or in
    DRAGOMAN_SERVER_KEY: it goes into the file as well. Never give a token as an argument: other
    users of the machine can read those.
    """
    from dragoman.sdk.issuing import new_curve

    if out.exists():
        raise ValueError(f"{out} is there already; nothing was changed")
    token = typer.get_text_stream("stdin").readline().strip()
    if not token:
        raise ValueError("the token is read from standard input, and there is none")
    public, secret = new_curve()
    vouching = authority.read_text().strip() if authority is not None else ""
    principal = trade(url, {"token": token, "key": f"curve:{public}", "name": name}, vouching)
    server = os.environ.get(SERVER_VARIABLE, "")
    write_credentials(out, Credentials(public, secret, server, authority=vouching))
    typer.echo(f"wrote {out}: you are {principal}")


def trade(url: str, said: dict[str, str], vouching: str) -> str:
    """Give a token for a key; return whom the key speaks for."""
    if not url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise ValueError(f"{url}: a token goes over https only, or to this machine")
    context = ssl.create_default_context(cadata=vouching or None)
    request = urllib.request.Request(
        f"{url.rstrip('/')}/v1/enrol",
        json.dumps(said).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE, context=context) as answer:
            return str(json.load(answer)["principal"])
    except urllib.error.HTTPError as error:
        raise Refused(_words(error)) from None
    except (OSError, ValueError) as error:
        raise Unreachable(f"{url}: {error}") from None


def _words(error: urllib.error.HTTPError) -> str:
    """Return what the broker says is wrong, in its own words if they can be read."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError):
        return f"the broker answers {error.code}"
