"""`dragoman enrol`: register a new key of this machine with a one-time token."""

import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import typer

from dragoman.cli.output import AS_JSON, print_done
from dragoman.sdk.credentials import SERVER_VARIABLE, Credentials, write_credentials
from dragoman.sdk.errors import Refused, Unreachable

_TIMEOUT: Final = 20.0
_THIS_MACHINE: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def enrol(
    url: str = typer.Argument(help="The broker's HTTP URL, e.g. https://broker.example:8420."),
    name: str = typer.Option("", help="The principal's name; must match the token's globs."),
    out: Path = typer.Option(Path("worker.key"), help="The file for the new credentials."),
    authority: Path | None = typer.Option(
        None, help="The broker's authority, in PEM (from its peers.txt)."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Make a CURVE key and register it with a one-time token, read from standard input.

    The token comes from `dragoman keys invite` on the broker's machine. The secret key never leaves
    this machine. Give the broker's public key with `--server-key` before the command, or in
    DRAGOMAN_SERVER_KEY; the file then contains it. Never give a token as an argument: other users
    of the machine can read those.
    """
    from dragoman.sdk.issuing import new_curve

    if out.exists():
        raise ValueError(f"{out} exists already; nothing was changed. Give another --out")
    token = typer.get_text_stream("stdin").readline().strip()
    if not token:
        raise ValueError("no token on standard input; pipe it in: echo TOKEN | dragoman enrol ...")
    public, secret = new_curve()
    authority_pem = authority.read_text().strip() if authority is not None else ""
    principal = exchange_token(
        url, {"token": token, "key": f"curve:{public}", "name": name}, authority_pem
    )
    server = os.environ.get(SERVER_VARIABLE, "")
    write_credentials(out, Credentials(public, secret, server, authority=authority_pem))
    print_done(f"wrote {out}: you are {principal}", as_json, file=out, principal=principal)


def exchange_token(url: str, body: dict[str, str], authority_pem: str) -> str:
    """Register a key with a token; return its principal."""
    parts = urlsplit(url)
    # A prefix of the text is not enough: http://127.0.0.1.example is another host.
    is_here = parts.scheme == "http" and parts.hostname in _THIS_MACHINE
    if parts.scheme != "https" and not is_here:
        raise ValueError(f"{url}: a token is sent only over https, or to this machine")
    context = ssl.create_default_context(cadata=authority_pem or None)
    request = urllib.request.Request(
        f"{url.rstrip('/')}/v1/enrol",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        # The scheme is checked above.
        with urllib.request.urlopen(  # nosec B310
            request, timeout=_TIMEOUT, context=context
        ) as answer:
            return str(json.load(answer)["principal"])
    except urllib.error.HTTPError as error:
        raise Refused(_detail(error)) from None
    except (OSError, ValueError) as error:
        raise Unreachable(f"{url}: {error}") from None


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the broker's error text, or else its HTTP status."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError):
        return f"the broker answers {error.code}"
