"""Which classes are used together: links from descriptors of dialects, transports and credentials.

Each carrier has one function here. A dialect on a known carrier needs no change.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
from dragoman.server.namespace_place import NamespacePlace
from dragoman.server.namespace_settings import DEFAULT_NAMESPACE, SHARED
from dragoman.server.nodes import Nkeys, Nodes
from dragoman.server.settings import BrokerSettings
from dragoman.server.shared_nats import SharedNats
from dragoman.transports.base import Admits, Refused, Transport
from dragoman.transports.listener import Listener
from dragoman.transports.memory import MemoryHub
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import NatsServer
from dragoman.transports.sp import SpReplier
from dragoman.transports.tls import PeerTls
from dragoman.transports.zmtp import MAX_FRAME, Router

if TYPE_CHECKING:
    from dragoman.server.federation import Federation
    from dragoman.server.password_logins import PasswordLogins
    from dragoman.server.shared_listeners import SharedListeners
    from dragoman.web.namespace_requests import NamespaceRequests

#: The file of browser sessions.
SESSIONS_FILE: Final = "browser-sessions.json"
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
    #: Checks names and passwords of people.
    passwords: "PasswordLogins | None" = None
    #: Returns the key of a token of any namespace, with which a browser logs in.
    login: CheckToken | None = None
    #: Finds the web application of a request's namespace; None: there is only one.
    requests: "NamespaceRequests | None" = None


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
        guard.passwords,
    )


class ListenerSecurity:
    """The security of listeners: their credentials, and the checks of peers."""

    def __init__(
        self,
        credentials: ListenerCredentials,
        admission: Admission,
        place: NamespacePlace | None = None,
    ) -> None:
        self.credentials = credentials
        self.admission = admission
        self._place = place

    def router(self, endpoint: str, listener: str, max_frame: int) -> Router:
        """Make the transport of a ZeroMQ listener."""
        secrets = self.credentials.curve(listener)
        made = Router(
            "" if endpoint == SHARED else endpoint,
            secrets=secrets,
            admits=self.admission.admits if secrets else None,
            refused=self.admission.refused,
            max_frame=max_frame,
        )
        self.share(made, endpoint, listener)
        return made

    @property
    def namespace(self) -> str:
        """The namespace of these listeners; empty: there is only one."""
        return "" if self._place is None else self._place.name

    @property
    def shared(self) -> "SharedListeners | None":
        """The listeners that several namespaces share."""
        return None if self._place is None else self._place.shared

    @property
    def nkeys(self) -> Nkeys | None:
        """The node names of every nkey, without those of two namespaces."""
        own = self.admission.nkeys
        if own is None or self.shared is None:
            return own
        return self.shared.own_nkeys(self.namespace, own)

    def share(self, made: Listener[Any], endpoint: str, listener: str) -> None:
        """Have a listener of several namespaces hand connections over, or get them."""
        shared = self.shared
        if shared is None:
            return
        if endpoint == SHARED:
            made.shared = shared.member_at(self.namespace, listener)
        elif self.namespace == DEFAULT_NAMESPACE and made.admits is not None:
            made.route = route = shared.route(listener)
            made.admits = partial(_admits_there, route, made.admits)


def _admits_there(route: Callable[[str], Any], own: Admits, key: str) -> bool:
    """Ask the namespace of a key whether the key may connect."""
    there = route(key)
    return own(key) if there is None else bool(there.admits(key))


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
    admits = to.security.admission.admits if tls else None
    made = SpReplier(to.endpoint if to.endpoint != SHARED else "", tls=tls, admits=admits)
    to.security.share(made, to.endpoint, to.listener)
    return made


def _nats(to: Listening) -> Transport:
    url, server, subjects = to.endpoint, None, to.dialect.node_subjects()
    nkeys = to.security.nkeys
    nodes = Nodes(nkeys, subjects) if nkeys is not None and subjects is not None else None
    tls = to.security.credentials.tls(to.listener)
    trusted = PeerTls(tls.authority.read_text()) if tls else None
    subscriptions: Sequence[str] = to.side.subscriptions  # type: ignore[attr-defined]
    shared = to.security.shared
    if url == SHARED and shared is not None and nodes is not None:
        place = shared.member_at(to.security.namespace, to.listener)
        own_place = to.security.namespace, to.settings.data / "nats"
        return SharedNats(
            place, *own_place, subscriptions, nodes.users, keys=nodes.key_of, tls=trusted
        )
    if not url or url.startswith("tcp://"):
        own = urlsplit(url or "tcp://127.0.0.1:0")
        server = NatsServer(
            to.settings.data / "nats",
            host=own.hostname or "127.0.0.1",
            port=own.port or 0,
            preferred=0 if url else to.dialect.worker_listener.port,
            users=nodes.users if nodes is not None else None,
            others=tuple if shared is None or nodes is None else shared.nats_accounts,
            tls=tls,
        )
    nkey, jwt = to.security.credentials.nats if server is None else (None, "")
    return Nats(
        url,
        subscriptions,
        server=server,
        nkey=nkey,
        jwt=jwt,
        tls=trusted if server or "tls:" in url else None,
        keys=nodes.key_of if nodes is not None else None,
    )


def _http(to: Listening) -> Transport:
    # Here, not above: a broker without HTTP starts without the web server.
    from dragoman.web.browser_sessions import BrowserSessions
    from dragoman.web.http_transport import HttpTransport
    from dragoman.web.identity import Checks
    from dragoman.web.shared_http import SharedHttpTransport

    checks, ask = None, to.security.admission
    if ask.admits is not None and ask.check_token is not None:
        checks = Checks(
            *(ask.check_token, ask.admits, ask.principal_of, ask.may_view, ask.enrol),
            federation=ask.federation,
            passwords=ask.passwords,
            login=ask.login,
        )
    shared = to.security.shared
    if to.endpoint == SHARED and shared is not None and checks is not None:
        member = shared.member_at(to.security.namespace, to.listener)
        return SharedHttpTransport(member, to.own, new_id, checks, shared.sessions)
    tls = to.security.credentials.tls(to.listener)
    names = to.settings.cluster.hosts
    sessions = BrowserSessions(time.time, to.settings.data / SESSIONS_FILE if checks else None)
    if ask.requests is not None and shared is not None:
        sessions = shared.sessions
    made = HttpTransport(
        *(to.endpoint, to.own, new_id),
        checks=checks,
        tls=tls,
        names=names,
        sessions=sessions,
        requests=ask.requests,
    )
    if ask.requests is not None and shared is not None:
        shared.hosts[to.listener] = made
    return made


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


def make_links(
    settings: BrokerSettings,
    hub: MemoryHub,
    admission: Admission = OPEN,
    place: NamespacePlace | None = None,
) -> list[Link]:
    """Make the links that the settings turn on, and that of the built-in services.

    Args:
        settings: what to listen on, and with which credentials.
        hub: where the built-in services connect.
        admission: which peers may connect.
        place: the place among several namespaces; None: there is one.

    """
    security = ListenerSecurity(ListenerCredentials(settings), admission, place)
    warn_of_plain_listeners(settings, security.credentials)
    made = [_links(settings, dialect, security) for dialect in DIALECTS.values()]
    return [Link(LocalBrokerSide(body_codecs()), hub), *(link for links in made for link in links)]
