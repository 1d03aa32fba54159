"""The part of a nats-server's configuration that makes it a member of a cluster with JetStream.

Such a server carries the replicated ledger and nothing else. Peers of a dialect never connect to
it: whoever may publish there could stop the stream for good. So its clients need the token of the
cluster, and it listens for them on the loopback.
"""

import re
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

#: The user of the brokers at their own server, and of the servers among each other.
LEDGER_USER: Final = "ledger"
ROUTE_USER: Final = "route"
#: The user that manages the cluster itself.
SYSTEM_USER: Final = "system"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLACE: Final = re.compile(r"[A-Za-z0-9_.\-\[\]:]+:[0-9]{1,5}")
_SECRET: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{8,512}")


class RouteTls(NamedTuple):
    """Certificate, key and authority of the connections between servers."""

    certificate: Path
    key: Path
    authority: Path


class NatsCluster(NamedTuple):
    """One member of a cluster of nats-servers."""

    name: str
    node: str
    #: Where the other servers connect, as host:port.
    listen: str
    #: The same of the other members.
    join: tuple[str, ...]
    #: The secret of the cluster; every member has the same.
    token: str
    tls: RouteTls | None = None


def check_name(text: str) -> str:
    """Return a name of a cluster or node. Raises ValueError."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name; use letters, digits, - and _")
    return text


def check_place(text: str) -> str:
    """Return an address as host:port. Raises ValueError."""
    if not _PLACE.fullmatch(text):
        raise ValueError(f"{text!r} is no address; use HOST:PORT")
    return text


def check_token(text: str) -> str:
    """Return the token of a cluster. Raises ValueError without showing it."""
    if not _SECRET.fullmatch(text):
        raise ValueError("the token of a cluster is 8 to 512 printable characters, without spaces")
    return text


def ledger_password(token: str) -> str:
    """Derive the password of the brokers: the servers' own one must not open the ledger."""
    return _derive(check_token(token), LEDGER_USER)


def system_password(token: str) -> str:
    """Derive the password of the system account, which can remove a member."""
    return _derive(check_token(token), SYSTEM_USER)


def route_password(token: str) -> str:
    """Derive the password of the servers among each other."""
    return _derive(check_token(token), ROUTE_USER)


def cluster_lines(member: NatsCluster, data: Path) -> list[str]:
    """Return the lines of the configuration. Raises ValueError for text that cannot be written."""
    return [
        f"server_name: {check_name(member.node)}",
        # An acknowledgement of the quorum means: on the disks, not only in their caches.
        f'jetstream {{ store_dir: "{data.resolve()}", sync_interval: always }}',
        f"authorization {{ users: [{_user(LEDGER_USER, ledger_password(member.token))}] }}",
        # The system account can remove a member that is gone for ever.
        f"accounts {{ SYS {{ users: [{_user(SYSTEM_USER, system_password(member.token))}] }} }}",
        "system_account: SYS",
        *(_route_lines(member) if member.join else ()),
    ]


def _user(name: str, password: str) -> str:
    return f'{{ user: {name}, password: "{password}" }}'


def _route_lines(member: NatsCluster) -> list[str]:
    """Return the section about the other servers; a cluster of one has none."""
    password = route_password(member.token)
    routes = [f'"nats-route://{ROUTE_USER}:{password}@{check_place(j)}"' for j in member.join]
    return [
        "cluster {",
        f"  name: {check_name(member.name)}",
        f'  listen: "{check_place(member.listen)}"',
        f'  authorization {{ user: {ROUTE_USER}, password: "{password}", timeout: 5 }}',
        *_tls_lines(member.tls),
        f"  routes: [{', '.join(routes)}]",
        "}",
    ]


def _tls_lines(tls: RouteTls | None) -> list[str]:
    if tls is None:
        return []
    files = {"cert_file": tls.certificate, "key_file": tls.key, "ca_file": tls.authority}
    named = ", ".join(f'{name}: "{path.resolve()}"' for name, path in files.items())
    return [f"  tls {{ {named}, verify: true, timeout: 5 }}"]


def _derive(token: str, user: str) -> str:
    return sha256(f"dragoman cluster {user} {token}".encode()).hexdigest()
