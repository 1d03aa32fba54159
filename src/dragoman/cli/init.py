"""`dragoman init`: create settings, keys and policy of a broker with security on."""

import os
import time
from pathlib import Path
from typing import Final

import typer

from dragoman.dialects.listeners import LISTENERS, ListenerSpec
from dragoman.security.files import only_owner

_LOCAL: Final = "127.0.0.1"
ADMIN: Final = "admin"

_POLICY: Final = """\
# Who may do what. Everything that no rule allows is denied. `dragoman policy roles` lists the
# built-in roles: viewer, submitter, operator, worker, auditor, admin. Changes take effect at once.
# If the file has an error, the last good one stays in force; `dragoman policy check` prints it.

# [roles.resizer]                    # a role of your own; several rules: [[roles.resizer]]
# verbs = ["submit", "read-own", "cancel"]
# services = ["resize", "thumb-*"]
# targets = ["any", "names"]

# [principals]                       # roles by name or glob, beside those of `dragoman keys`
# "edge-*" = ["worker"]

[limits."*"]                         # for every principal; more specific limits override these
requests_per_second = 1000
open_jobs = 100000
"""


def init(
    folder: Path = typer.Argument(Path(), help="The folder for all files."),
    host: str = typer.Option(_LOCAL, help="The address to listen on; 0.0.0.0 for all."),
    name: list[str] = typer.Option(
        [], "--name", help="A host name or address that peers use; may be repeated."
    ),
) -> None:
    """Create the settings and keys of a broker with security on.

    Writes `dragoman.toml`, `policy.toml`, the broker's keys in `keys/`, your own credentials in
    `admin.key`, and `peers.txt` with the addresses and public keys for peers. Overwrites nothing.
    """
    config = folder / "dragoman.toml"
    if config.exists():
        raise ValueError(f"{config} exists already; nothing was changed")
    only_owner()
    folder = folder.resolve()
    keys = folder / "keys"
    keys.mkdir(parents=True, exist_ok=True)
    os.chmod(keys, 0o700)
    # Nothing is bound here: an address of all interfaces is no host name for a certificate.
    own = [host] if host != "0.0.0.0" else []  # nosec B104
    hosts = tuple(dict.fromkeys([*name, *own, "localhost"]))
    public = write_curve_pair(keys / "broker.key_secret")
    authority_pem = write_certificates(keys, hosts)
    write_private(folder / "policy.toml", _POLICY)
    write_private(folder / "dragoman.toml", settings_text(folder, host))
    _issue_admin_credentials(folder)
    text = peers_text(hosts[0], public, authority_pem)
    (folder / "peers.txt").write_text(text)
    typer.echo(text)
    typer.echo(f"Start it with:  dragoman up --config {config}")
    typer.echo(f"Use it with:    dragoman --key {folder / 'admin.key'} workers")


def write_curve_pair(path: Path) -> str:
    """Make a CURVE key pair in pyzmq's certificate format; return the public key."""
    from dragoman.sdk.issuing import new_curve

    public, secret = new_curve()
    text = f'metadata\ncurve\n    public-key = "{public}"\n'
    path.with_suffix(".key").write_text(text)
    write_private(path, f'{text}    secret-key = "{secret}"\n')
    return public


def write_certificates(keys: Path, hosts: tuple[str, ...]) -> str:
    """Make an authority and the broker's certificate; return the authority's, in PEM."""
    from dragoman.sdk.issuing import new_authority, new_certificate

    root = new_authority("dragoman authority")
    own = new_certificate(root, "dragoman broker", hosts)
    for name, made in (("authority", root), ("broker-tls", own)):
        (keys / f"{name}.pem").write_text(made.certificate + "\n")
        write_private(keys / f"{name}.key", made.secret + "\n")
    return root.certificate


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)


def settings_text(folder: Path, host: str) -> str:
    """Return the settings of a broker that listens on a host, with security on."""
    lines = [
        f'data = "{folder / "data"}"',
        "",
        "[listen]",
        *(f'{each.name} = "{each.scheme}://{host}:{each.port}"' for each in LISTENERS),
        "",
        "[security]",
        "enabled = true",
        f'policy = "{folder / "policy.toml"}"',
        "",
        "[credentials]",
        f'curve = ["{folder / "keys" / "broker.key_secret"}"]',
        f'certificate = "{folder / "keys" / "broker-tls.pem"}"',
        f'key = "{folder / "keys" / "broker-tls.key"}"',
        f'authority = "{folder / "keys" / "authority.pem"}"',
    ]
    return "\n".join(lines) + "\n"


def _issue_admin_credentials(folder: Path) -> None:
    from dragoman.cli.broker_files import find_settings, open_registry
    from dragoman.cli.keys import issue

    settings = find_settings(folder / "dragoman.toml", None)
    settings.data.mkdir(parents=True, exist_ok=True)
    registry = open_registry(settings)
    issue(settings, registry, ADMIN, ("admin",), folder / "admin.key")


def _url(listener: ListenerSpec, host: str) -> str:
    scheme = "https" if listener.scheme == "http" else listener.dialect
    return f"{scheme}://{host}:{listener.port}"


def peers_text(host: str, public: str, authority_pem: str) -> str:
    """Return the addresses and public keys that every peer needs; none of it is secret."""
    return "\n".join(
        [
            f"# What peers of this broker need to know ({time.strftime('%Y-%m-%d')}). Not secret.",
            "# `dragoman keys new NAME --role ROLE` makes the credentials of a peer.",
            "",
            *(f"{_url(each, host):40}# {each.peers}" for each in LISTENERS),
            "",
            "# The broker's CURVE key (Z85), for nfp, dcp and zss:",
            f"DRAGOMAN_SERVER_KEY='{public}'",
            "",
            "# The same as pyzmq's certificate `broker.key`, for NorFab's peers with zmq_auth:",
            "metadata",
            "curve",
            f'    public-key = "{public}"',
            "",
            "# The certificate authority of the broker, for memo, http and nats:",
            authority_pem,
            "",
        ]
    )
