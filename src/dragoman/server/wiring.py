"""Which classes are used together: links from descriptors of dialects, transports and credentials.

Each carrier has one function here. A dialect on a known carrier needs no change.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from dragoman.dialects.base import BrokerSide
from dragoman.dialects.descriptor import Carrier, Dialect, ManagementTask
from dragoman.dialects.local.broker_side import LocalBrokerSide
from dragoman.dialects.registry import DIALECTS, body_codecs
from dragoman.model.value import value
from dragoman.server.credentials import ListenerCredentials, warn_of_plain_listeners
from dragoman.server.guard import Guard
from dragoman.server.links import Link
from dragoman.server.nodes import Nkeys, Nodes
from dragoman.server.settings import BrokerSettings
from dragoman.transports.base import Admits, Refused, Transport
from dragoman.transports.memory import MemoryHub
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import NatsServer
from dragoman.transports.sp import SpReplier
from dragoman.transports.tls import PeerTls
from dragoman.transports.zmtp import MAX_FRAME, Router

if TYPE_CHECKING:
    from dragoman.server.federation import Federation

#: Returns the key of a bearer token that is allowed now.
CheckToken = Callable[[str], str | None]


def new_id() -> str:
    """Return a fresh id: 128 random bits in hex."""
    return os.urandom(16).hex()


def dialect_settings(settings: BrokerSettings, dialect: Dialect) -> object:
    """Return the settings of a dialect's sides."""
    own = getattr(settings, dialect.name)
    if not hasattr(own, "memoized"):
        return own
    return replace(own, memoized=frozenset(n for n, s in settings.services.items() if s.memoize))


def management_tasks(settings: BrokerSettings) -> dict[str, tuple[str, ManagementTask]]:
    """Return the management tasks with a dialect's own form, and the dialect, by task name."""
    return {
        name: (dialect.name, task)
        for dialect in DIALECTS.values()
        for name, task in dialect.management_tasks(dialect_settings(settings, dialect)).items()
    }


@value
class Admission:
    """The checks that listeners make; without security they admit everybody."""

    #: Tells whether a handshake's key may connect; None: every key may.
    admits: Admits | None = None
    #: Keeps the name and address that the peer of a refused key shows.
    refused: Refused | None = None
    #: Returns the key of a bearer token that is allowed now.
    check_token: CheckToken | None = None
    #: Returns the principal of a key.
    principal_of: Callable[[str], str] = str
    #: Returns why a key may not see an HTTP view; empty: it may.
    may_view: Callable[[str, str], str] = lambda key, what: ""
    #: Returns the node names of every nkey; None: every nkey may use any.
    nkeys: Nkeys | None = None
    #: Allows a key by a one-time token; returns its principal.
    enrol: Callable[[str, str, str], str] | None = None
    #: Checks the tokens of issuers, and lets people log in with them.
    federation: "Federation | None" = None


OPEN: Final = Admission()


def admission_of(guard: Guard, federation: "Federation | None" = None) -> Admission:
    """Return the guard's checks for the listeners."""
    return Admission(
        guard.admits,
        guard.refused,
        guard.check_token,
        guard.principal_of,
        guard.may_view,
        guard.nkeys,
        guard.enrol,
        federation,
    )


class ListenerSecurity:
    """The security of listeners: their credentials, and the checks of peers."""

    def __init__(self, credentials: ListenerCredentials, admission: Admission) -> None:
        self.credentials = credentials
        self.admission = admission

    def router(self, endpoint: str, listener: str, max_frame: int) -> Router:
        """Make the transport of a ZeroMQ listener."""
        secrets = self.credentials.curve(listener)
        admits = self.admission.admits if secrets else None
        refused = self.admission.refused
        return Router(
            endpoint, secrets=secrets, admits=admits, refused=refused, max_frame=max_frame
        )


@value
class Listening:
    """One listener that is on: its side, and what its transport needs."""

    settings: BrokerSettings
    dialect: Dialect
    #: The settings of the dialect's sides.
    own: Any
    side: BrokerSide
    listener: str
    endpoint: str
    security: ListenerSecurity


def _zeromq(to: Listening) -> Transport:
    return to.security.router(to.endpoint, to.listener, getattr(to.own, "max_body", MAX_FRAME))


def _sp(to: Listening) -> Transport:
    tls = to.security.credentials.tls(to.listener)
    # Without certificates there is no key to check.
    return SpReplier(to.endpoint, tls=tls, admits=to.security.admission.admits if tls else None)


def _nats(to: Listening) -> Transport:
    url, server, subjects = to.endpoint, None, to.dialect.node_subjects()
    nkeys = to.security.admission.nkeys
    nodes = Nodes(nkeys, subjects) if nkeys is not None and subjects is not None else None
    tls = to.security.credentials.tls(to.listener)
    if not url or url.startswith("tcp://"):
        own = urlsplit(url or "tcp://127.0.0.1:0")
        server = NatsServer(
            to.settings.data / "nats",
            host=own.hostname or "127.0.0.1",
            port=own.port or 0,
            preferred=0 if url else to.dialect.worker_listener.port,
            users=nodes.users if nodes is not None else None,
            tls=tls,
        )
    nkey, jwt = to.security.credentials.nats if server is None else (None, "")
    return Nats(
        url,
        to.side.subscriptions,  # type: ignore[attr-defined]
        server=server,
        nkey=nkey,
        jwt=jwt,
        tls=PeerTls(tls.authority.read_text()) if tls and (server or "tls:" in url) else None,
        keys=nodes.key_of if nodes is not None else None,
    )


def _http(to: Listening) -> Transport:
    # Here, not above: a broker without HTTP starts without the web server.
    from dragoman.web.http_transport import HttpTransport
    from dragoman.web.identity import Checks

    checks, ask = None, to.security.admission
    if ask.admits is not None and ask.check_token is not None:
        checks = Checks(
            *(ask.check_token, ask.admits, ask.principal_of, ask.may_view, ask.enrol),
            federation=ask.federation,
        )
    tls = to.security.credentials.tls(to.listener)
    names = to.settings.cluster.hosts
    sessions = to.settings.data / "browser-sessions.json" if checks is not None else None
    return HttpTransport(
        to.endpoint, to.own, new_id, checks=checks, tls=tls, names=names, sessions=sessions
    )


#: Makes the transport of a listener.
_TRANSPORTS: Final[dict[Carrier, Callable[[Listening], Transport]]] = {
    Carrier.ZEROMQ: _zeromq,
    Carrier.SP: _sp,
    Carrier.NATS: _nats,
    Carrier.HTTP: _http,
}


def _links(settings: BrokerSettings, dialect: Dialect, security: ListenerSecurity) -> list[Link]:
    """Make the links of a dialect whose listeners are on."""
    endpoints = [getattr(settings.listen, each.name) for each in dialect.listeners]
    if all(endpoint == "off" for endpoint in endpoints):
        return []
    own = dialect_settings(settings, dialect)
    sides = dialect.broker_sides(body_codecs(), new_id, own)
    links = []
    for side, listener, endpoint in zip(sides, dialect.listeners, endpoints, strict=True):
        if endpoint != "off":
            to = Listening(settings, dialect, own, side, listener.name, endpoint, security)
            links.append(Link(side, _TRANSPORTS[dialect.carrier](to), listener.name))
    return links


def make_links(settings: BrokerSettings, hub: MemoryHub, admission: Admission = OPEN) -> list[Link]:
    """Make the links that the settings turn on, and that of the built-in services.

    Args:
        settings: what to listen on, and with which credentials.
        hub: where the built-in services connect.
        admission: which peers may connect.

    """
    security = ListenerSecurity(ListenerCredentials(settings), admission)
    warn_of_plain_listeners(settings, security.credentials)
    made = [_links(settings, dialect, security) for dialect in DIALECTS.values()]
    return [Link(LocalBrokerSide(body_codecs()), hub), *(link for links in made for link in links)]
