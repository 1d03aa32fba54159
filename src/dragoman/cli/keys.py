"""`dragoman keys`: who may speak. Works on the files of a broker; a running one follows at once."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from dragoman.cli.broker_files import CONFIG, DATA, find_settings, open_registry
from dragoman.cli.output import AS_JSON, print_rows
from dragoman.security.keys import KeyState, brief

if TYPE_CHECKING:
    from dragoman.sdk.issuing import Certificate
    from dragoman.security.registry import KeyRegistry
    from dragoman.server.settings import BrokerSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list, approve, revoke and rotate the keys of principals."
    " A running broker follows within a second.",
)

NAME = typer.Argument(help="Whose: the name of a principal.")
ROLE = typer.Option([], "--role", help="A role of theirs; may be repeated.")
OUT = typer.Option(None, "--out", help="Where the credentials go (NAME.key).")
DAYS = typer.Option(0.0, min=0, help="How long the key may speak; 0: for ever.")
_DAY: Final = 86_400.0


@app.command()
def new(
    name: str = NAME,
    role: list[str] = ROLE,
    out: Path | None = OUT,
    key: list[str] = typer.Option(
        [], "--key", help="Public keys that they have already; nothing is made then."
    ),
    days: float = DAYS,
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Make the credentials of a principal, and let them in.

    They are written to a file that only you can read: bring it to the peer, and say
    `dragoman --key FILE ...` there. With --key, what a peer made itself is let in instead.
    """
    settings = find_settings(config, data)
    registry = open_registry(settings)
    now = time.time()
    until = now + days * _DAY if days else 0.0
    if key:
        for each in key:
            registry.add(each, name, now=now, roles=tuple(role), expires_at=until)
        typer.echo(f"{name} may speak with {len(key)} key(s)")
        return
    path = out or Path(f"{name}.key")
    keys = issue(settings, registry, name, tuple(role), path, until)
    typer.echo(f"wrote {path} ({', '.join(brief(each) for each in keys)})")


@app.command("list")
def list_(
    state: KeyState | None = typer.Option(None, help="Only keys in this state."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    as_json: bool = AS_JSON,
) -> None:
    """List keys with whose they are and where they stand; strangers who knocked are pending."""
    registry = open_registry(find_settings(config, data))
    now = time.time()
    rows = [
        {
            "key": key if as_json else brief(key),
            "principal": entry.principal,
            "state": entry.state_at(now).value,
            "roles": list(registry.entry_of(entry.principal or key).roles),
            "expires": _date(entry.expires_at),
            "note": entry.note,
        }
        for key, entry in registry.entries().items()
        if state is None or entry.state_at(now) is state
    ]
    print_rows(rows, as_json, "no keys; make one with `dragoman keys new NAME`")


@app.command()
def approve(
    key: str = typer.Argument(help="A key, or as much of it as is shown."),
    name: str = typer.Option("", help="The name of the principal it is to speak for."),
    role: list[str] = ROLE,
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Let a key speak that waits for it."""
    registry = open_registry(find_settings(config, data))
    found = find_key(registry, key)
    registry.approve(found, name, tuple(role))
    typer.echo(f"{brief(found)} may speak for {registry.principal_of(found)}")


@app.command()
def revoke(
    whom: str = typer.Argument(help="A key, or the name of a principal: all of its keys."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Take the word from a key or a principal, for good; connections are closed at once."""
    registry = open_registry(find_settings(config, data))
    is_name = bool(registry.keys_of(whom))
    keys = registry.revoke(whom if is_name else find_key(registry, whom))
    typer.echo(f"revoked {', '.join(brief(key) for key in keys)}")


@app.command()
def roles(
    name: str = NAME,
    role: list[str] = typer.Argument(None, help="All roles they have from now on; none: none."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Say which roles a principal has, instead of those it had."""
    open_registry(find_settings(config, data)).set_roles(name, tuple(role or ()))
    typer.echo(f"{name}: {', '.join(role or ()) or 'no roles'}")


@app.command()
def rotate(
    name: str = NAME,
    out: Path | None = OUT,
    grace: float = typer.Option(24.0, min=0, help="Hours for which the old keys go on."),
    days: float = DAYS,
    finish: bool = typer.Option(False, help="For `broker`: serve the new key alone from now on."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Give a principal new credentials; its old keys end after a grace.

    With the name `broker`, make another CURVE key of the broker itself, and have its settings serve
    both. Restart it and give peers the new key one by one; --finish takes the old key out.
    """
    settings = find_settings(config, data)
    if name == "broker":
        from dragoman.cli import rotation

        done = rotation.finish if finish else rotation.begin
        typer.echo(done(settings, config))
        return
    registry = open_registry(settings)
    now = time.time()
    old = [k for k in registry.keys_of(name) if registry.state_of(k, now) is KeyState.ALLOWED]
    if not old:
        raise ValueError(f"{name!r} has no key that may speak; `dragoman keys new` makes one")
    path = out or Path(f"{name}.key")
    issue(settings, registry, name, (), path, now + days * _DAY if days else 0.0)
    for key in old:
        registry.expire(key, now + grace * 3600)
    typer.echo(f"wrote {path}; {len(old)} old key(s) end in {grace:g} h")


@app.command()
def invite(
    service: list[str] = typer.Option(["*"], help="A glob of services; may be repeated."),
    name: list[str] = typer.Option(["*"], help="A glob of worker names; may be repeated."),
    role: list[str] = typer.Option(["worker"], help="A role; may be repeated."),
    minutes: float = typer.Option(15.0, min=0.1, help="How long it may be used."),
    days: float = typer.Option(0.0, min=0, help="How long the key may speak; 0: for ever."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Make a one-time token with which a worker lets itself in, unattended.

    It can be used once, for a worker of these services whose name fits. It is shown only now.
    """
    registry = open_registry(find_settings(config, data))
    token = registry.new_enrolment(
        now=time.time(),
        life=minutes * 60,
        services=tuple(service),
        names=tuple(name),
        roles=tuple(role),
        key_life=days * _DAY,
    )
    typer.echo(token)


@app.command()
def enrol(
    key: str = typer.Argument(help="The public key that is to be let in, as scheme:value."),
    name: str = typer.Option("", help="The name of the principal; must fit the token's globs."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
) -> None:
    """Let a key in on the strength of a one-time token, read from standard input.

    Never give a token as an argument: other users of the machine can read those.
    """
    token = typer.get_text_stream("stdin").readline().strip()
    registry = open_registry(find_settings(config, data))
    principal = registry.enrol(token, key, time.time(), name)
    typer.echo(f"{brief(key)} may speak for {brief(principal)}")


def issue(
    settings: "BrokerSettings",
    registry: "KeyRegistry",
    name: str,
    roles: tuple[str, ...],
    path: Path,
    until: float = 0.0,
) -> tuple[str, ...]:
    """Make credentials for everything the broker listens with; register them, and write them."""
    from dragoman.sdk.credentials import write_credentials
    from dragoman.sdk.issuing import new_credentials

    now = time.time()
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{path} cannot be written")
    token = registry.new_token(name, now=now, roles=roles, expires_at=until)
    made, keys = new_credentials(name, public_key(settings), authority(settings), token)
    for key in keys:
        registry.add(key, name, now=now, roles=roles, expires_at=until)
    write_credentials(path, made)
    return keys


def public_key(settings: "BrokerSettings") -> str:
    """Return the broker's public CURVE key; empty if it has none."""
    import zmq

    from dragoman.server.credentials import read_secret

    files = settings.credentials.curve
    return zmq.curve_public(read_secret(files[0])).decode() if files else ""


def authority(settings: "BrokerSettings") -> "Certificate | None":
    """Return the broker's own authority with its secret, where that is beside it."""
    from dragoman.sdk.issuing import Certificate

    path = settings.credentials.authority
    secret = path.with_suffix(".key") if path is not None else None
    if path is None or secret is None or not secret.is_file():
        return None
    return Certificate(path.read_text(), secret.read_text())


def find_key(registry: "KeyRegistry", text: str) -> str:
    """Complete a key that was shortened. Raises ValueError unless exactly one fits."""
    found = [key for key in registry.entries() if key.startswith(text.removesuffix("..."))]
    if text in registry.entries():
        return text
    if len(found) != 1:
        how = "no key begins" if not found else f"{len(found)} keys begin"
        raise ValueError(f"{how} with {text!r}; `dragoman keys list --json` shows them whole")
    return found[0]


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)) if at else ""
