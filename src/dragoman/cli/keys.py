"""`dragoman keys`: the keys of principals. Edits the broker's files; a running broker reloads."""

import os
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from dragoman.cli.broker_files import (
    CONFIG,
    DATA,
    NAMESPACE,
    find_settings,
    open_namespace_registry,
    open_registry,
    policy_file,
)
from dragoman.cli.output import AS_JSON, print_done, print_rows
from dragoman.security.issued_tokens import revocation_key
from dragoman.security.keys import KeyState, brief
from dragoman.security.passwords import check_password, hash_password, is_password
from dragoman.security.policy_file import PolicyFile

if TYPE_CHECKING:
    from dragoman.sdk.issuing import Certificate
    from dragoman.security.registry import KeyRegistry
    from dragoman.server.settings import BrokerSettings

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list, approve, revoke and rotate the keys of principals."
    " A running broker applies changes within a second.",
)

NAME = typer.Argument(help="The name of a principal.")
ROLE = typer.Option([], "--role", help="A role of the principal; may be repeated.")
OUT = typer.Option(None, "--out", help="The file for the credentials (NAME.key).")
DAYS = typer.Option(0.0, min=0, help="Days until the key expires; 0: never.")
_DAY: Final = 86_400.0


@app.command()
def new(
    name: str = NAME,
    role: list[str] = ROLE,
    out: Path | None = OUT,
    key: list[str] = typer.Option(
        [], "--key", help="An existing public key, scheme:value; no key is made then."
    ),
    days: float = DAYS,
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Make and register the credentials of a principal.

    Writes them to a file that only you can read. Copy it to the peer and use it there with
    `dragoman --key FILE ...`. With --key, registers a key that the peer made itself instead.
    """
    settings = find_settings(config, data, namespace)
    registry = open_namespace_registry(config, data, namespace)
    now = time.time()
    until = now + days * _DAY if days else 0.0
    if key:
        for each in key:
            registry.add(each, name, now=now, roles=tuple(role), expires_at=until)
        print_done(f"registered {len(key)} key(s) of {name}", as_json, principal=name, keys=key)
        return
    path = out or Path(f"{name}.key")
    keys = issue(settings, registry, name, tuple(role), path, until)
    shown = ", ".join(brief(each) for each in keys)
    print_done(f"wrote {path} ({shown})", as_json, principal=name, file=path, keys=list(keys))


@app.command("list")
def list_(
    state: KeyState | None = typer.Option(None, help="Only keys in this state."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """List keys with their principal and state. Unknown keys that tried to connect are pending."""
    registry = open_registry(find_settings(config, data, namespace))
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
    key: str = typer.Argument(
        "", help="A key, or its beginning as `dragoman keys list` shows it. Not with --pending."
    ),
    name: str = typer.Option("", help="The name of the key's principal."),
    pending: str = typer.Option(
        "", help="Approve every pending key whose peer shows a name like this, e.g. 'switch-*'."
    ),
    role: list[str] = ROLE,
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Approve a pending key, or all pending keys of a fleet.

    With --pending, each principal gets the name that its peer shows; a NorFab worker and its own
    client (NAME-NFPClient) are one principal. Look at `dragoman keys list --state pending` first:
    until it is approved, anyone can show any name.
    """
    registry = open_namespace_registry(config, data, namespace)
    if pending:
        _approve_fleet(registry, pending, tuple(role), as_json)
        return
    if not key:
        raise typer.BadParameter("name a key, or use --pending with a pattern")
    found = find_key(registry, key)
    registry.approve(found, name, tuple(role))
    principal = registry.principal_of(found)
    print_done(f"approved {brief(found)} for {principal}", as_json, key=found, principal=principal)


def _approve_fleet(
    registry: "KeyRegistry", pattern: str, roles: tuple[str, ...], as_json: bool
) -> None:
    """Approve the pending keys whose peers show a name that matches."""
    now, approved = time.time(), {}
    for key, entry in registry.entries().items():
        name = entry.note.partition(" from ")[0].removesuffix("-NFPClient")
        if entry.state_at(now) is KeyState.PENDING and fnmatchcase(name, pattern):
            registry.approve(key, name, roles)
            approved[key] = name
    shown = ", ".join(sorted(set(approved.values()))) or "no pending key matches"
    print_done(f"approved {len(approved)} key(s): {shown}", as_json, keys=approved)


@app.command()
def revoke(
    whom: str = typer.Argument(
        help="A key, or the name of a principal: all of its keys; ISSUER:NAME: all of its tokens."
    ),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Revoke a key, or all keys of a principal, for good. Their connections close at once."""
    settings = find_settings(config, data, namespace)
    registry = open_registry(settings)
    if whom.partition(":")[0] in settings.security.issuers:
        key = revocation_key(whom)
        registry.revoke_issued(key, whom, time.time())
        print_done(f"revoked every token of {whom}", as_json, keys=[key])
        return
    is_name = bool(registry.keys_of(whom))
    keys = registry.revoke(whom if is_name else find_key(registry, whom))
    print_done(f"revoked {', '.join(brief(key) for key in keys)}", as_json, keys=list(keys))


@app.command()
def password(
    name: str = NAME,
    role: list[str] = ROLE,
    days: float = DAYS,
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Set the password with which a person logs in at the dashboard.

    Asks for it twice; without a terminal, reads one line from standard input. Never give a password
    as an argument: other users of the machine can read those. A new password replaces the old one
    and ends its logins; `dragoman keys revoke NAME` ends all keys of the person.
    """
    stream = typer.get_text_stream("stdin")
    given = (
        typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        if stream.isatty()
        else stream.readline().rstrip("\r\n")
    )
    stored = hash_password(check_password(given, name), os.urandom(16))
    registry, now = open_namespace_registry(config, data, namespace), time.time()
    until = now + days * _DAY if days else 0.0
    key = registry.set_password(name, stored, now=now, roles=tuple(role), expires_at=until)
    print_done(f"set the password of {name}", as_json, principal=name, key=key)


@app.command()
def roles(
    name: str = NAME,
    role: list[str] = typer.Argument(None, help="All roles of the principal; without: no roles."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Replace the roles of a principal."""
    open_registry(find_settings(config, data, namespace)).set_roles(name, tuple(role or ()))
    shown = ", ".join(role or ()) or "no roles"
    print_done(f"{name}: {shown}", as_json, principal=name, roles=list(role or ()))


@app.command()
def rotate(
    name: str = NAME,
    out: Path | None = OUT,
    grace: float = typer.Option(24.0, min=0, help="Hours until the old keys expire."),
    days: float = DAYS,
    finish: bool = typer.Option(False, help="For `broker`: serve only the new key from now on."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Make new credentials for a principal; its old keys expire after --grace.

    With the name `broker`, makes another CURVE key of the broker itself and puts both into its
    settings. Restart it and give peers the new key one by one; --finish removes the old key.
    """
    settings = find_settings(config, data, namespace)
    if name == "broker" and namespace:
        raise ValueError("the broker has one key for all namespaces; leave out --namespace")
    if name == "broker":
        from dragoman.cli import rotation

        done = rotation.finish if finish else rotation.begin
        steps = done(settings, config)
        print_done(steps, as_json, next_steps=steps)
        return
    registry = open_registry(settings)
    now = time.time()
    old = [
        key for key in registry.keys_of(name) if registry.admits(key, now) and not is_password(key)
    ]
    if not old:
        raise ValueError(f"{name!r} has no valid key; make one with `dragoman keys new {name}`")
    path = out or Path(f"{name}.key")
    issue(settings, registry, name, (), path, now + days * _DAY if days else 0.0)
    for key in old:
        registry.expire(key, now + grace * 3600)
    print_done(
        f"wrote {path}; {len(old)} old key(s) expire in {grace:g} h",
        as_json,
        principal=name,
        file=path,
        expiring=old,
    )


@app.command()
def invite(
    service: list[str] = typer.Option(["*"], help="A glob of services; may be repeated."),
    name: list[str] = typer.Option(["*"], help="A glob of worker names; may be repeated."),
    role: list[str] = typer.Option(["worker"], help="A role; may be repeated."),
    minutes: float = typer.Option(15.0, min=0.1, help="Minutes until the token expires."),
    days: float = typer.Option(0.0, min=0, help="Days until the enrolled key expires; 0: never."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Make a one-time token with which a worker registers its own key.

    It works once, for a worker of these services whose name matches. It is not shown again. A name
    to which the policy gives other roles than the token is refused; this command names them.
    """
    settings = find_settings(config, data, namespace)
    registry = open_registry(settings)
    policy = PolicyFile(policy_file(settings)).policy
    for glob, more in policy.grants_beyond(tuple(name), tuple(role)).items():
        roles = ", ".join(more)
        typer.echo(f"names like {glob!r} will be refused: the policy gives them {roles}", err=True)
    token = registry.new_enrolment(
        now=time.time(),
        life=minutes * 60,
        services=tuple(service),
        names=tuple(name),
        roles=tuple(role),
        key_life=days * _DAY,
    )
    print_done(token, as_json, token=token)


@app.command()
def enrol(
    key: str = typer.Argument(help="The public key to register, as scheme:value."),
    name: str = typer.Option("", help="The name of the principal; must match the token's globs."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Register a key with a one-time token, read from standard input.

    Never give a token as an argument: other users of the machine can read those.
    """
    token = typer.get_text_stream("stdin").readline().strip()
    settings = find_settings(config, data, namespace)
    registry = open_namespace_registry(config, data, namespace)
    policy = PolicyFile(policy_file(settings)).policy
    principal = registry.enrol(token, key, time.time(), name, policy=policy)
    print_done(
        f"registered {brief(key)} for {brief(principal)}", as_json, key=key, principal=principal
    )


def issue(
    settings: "BrokerSettings",
    registry: "KeyRegistry",
    name: str,
    roles: tuple[str, ...],
    path: Path,
    until: float = 0.0,
) -> tuple[str, ...]:
    """Make credentials for every listener of the broker, register them, and write the file."""
    from dragoman.sdk.credentials import write_credentials
    from dragoman.sdk.issuing import new_credentials

    now = time.time()
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"cannot write {path}: permission denied")
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
    """Return the broker's own authority with its secret key, if that is beside it."""
    from dragoman.sdk.issuing import Certificate

    path = settings.credentials.authority
    secret = path.with_suffix(".key") if path is not None else None
    if path is None or secret is None or not secret.is_file():
        return None
    return Certificate(path.read_text(), secret.read_text())


def find_key(registry: "KeyRegistry", text: str) -> str:
    """Find a key by its beginning. Raises ValueError unless exactly one matches."""
    found = [key for key in registry.entries() if key.startswith(text.removesuffix("..."))]
    if text in registry.entries():
        return text
    if len(found) != 1:
        how = "no key begins" if not found else f"{len(found)} keys begin"
        raise ValueError(f"{how} with {text!r}; `dragoman keys list --json` prints full keys")
    return found[0]


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else ""
