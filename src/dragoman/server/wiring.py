"""The wiring: the only file of the server that names dialects and transports together."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar
from urllib.parse import urlsplit

from dragoman.dialects.base import BodyCodec, BodyCodecs
from dragoman.dialects.dcp.body_codec import DcpBodyCodec as DcpDress
from dragoman.dialects.dcp.broker_side import DcpBrokerSide as DcpSide
from dragoman.dialects.http.body_codec import HttpBodyCodec as HttpDress
from dragoman.dialects.http.broker_side import HttpBrokerSide as HttpSide
from dragoman.dialects.listeners import listener
from dragoman.dialects.local.body_codec import LocalBodyCodec as LocalDress
from dragoman.dialects.local.broker_side import LocalBrokerSide as LocalSide
from dragoman.dialects.memo01.body_codec import MemoBodyCodec
from dragoman.dialects.memo01.broker_side import MemoBrokerSide as MemoSide
from dragoman.dialects.ncl.body_codec import NclBodyCodec as NclDress
from dragoman.dialects.ncl.broker_side import NclBrokerSide as NclSide
from dragoman.dialects.nfp.body_codec import NfpBodyCodec as NfpDress
from dragoman.dialects.nfp.broker_side import NfpBrokerSide as NfpSide
from dragoman.dialects.zss.body_codec import ZssBodyCodec as ZssDress
from dragoman.dialects.zss.broker_side import broker_sides as zss_sides
from dragoman.model.value import value
from dragoman.server.credentials import ListenerCredentials, warn_of_plain_listeners
from dragoman.server.links import Link
from dragoman.server.nodes import Nkeys, Nodes
from dragoman.server.settings import BrokerSettings
from dragoman.transports.base import Admits, Transport
from dragoman.transports.memory import MemoryHub
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import NatsServer
from dragoman.transports.sp import SpReplier
from dragoman.transports.tls import PeerTls
from dragoman.transports.zmtp import MAX_FRAME, Router

T = TypeVar("T")
#: Returns the key of a bearer token that is allowed now.
CheckToken = Callable[[str], str | None]

#: The usual NATS port; our own server uses it if it is free.
NATS_PORT: Final = listener("nats").port


def new_id() -> str:
    """Return a fresh id: 128 random bits in hex."""
    return os.urandom(16).hex()


def make_body_codecs() -> BodyCodecs:
    """Return the body codec of every dialect by name."""
    dresses: list[BodyCodec] = [NfpDress(), DcpDress(), ZssDress(), MemoBodyCodec(), NclDress()]
    return {codec.name: codec for codec in [*dresses, HttpDress(), LocalDress()]}


@value
class Admission:
    """The checks that listeners make; without security they admit everybody."""

    #: Tells whether a handshake's key may connect; None: every key may.
    admits: Admits | None = None
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


OPEN: Final = Admission()


class ListenerSecurity:
    """The security of listeners: their credentials, and the checks of peers."""

    def __init__(self, credentials: ListenerCredentials, admission: Admission) -> None:
        self.credentials = credentials
        self.admission = admission

    def router(
        self, settings: BrokerSettings, listener: str, max_frame: int = MAX_FRAME
    ) -> Transport:
        """Make the transport of a ZeroMQ listener."""
        endpoint = getattr(settings.listen, listener)
        secrets = self.credentials.curve(listener)
        admits = self.admission.admits if secrets else None
        return Router(endpoint, secrets=secrets, admits=admits, max_frame=max_frame)


def _nfp(settings: BrokerSettings, codecs: BodyCodecs, security: ListenerSecurity) -> list[Link]:
    side = NfpSide(codecs=codecs, settings=settings.nfp)
    return [Link(side, security.router(settings, "nfp", settings.nfp.max_body))]


def _dcp(settings: BrokerSettings, codecs: BodyCodecs, security: ListenerSecurity) -> list[Link]:
    side = DcpSide(codecs=codecs, ids=new_id, settings=settings.dcp)
    return [Link(side, security.router(settings, "dcp"))]


def _zss(settings: BrokerSettings, codecs: BodyCodecs, security: ListenerSecurity) -> list[Link]:
    front, back = zss_sides(codecs=codecs, ids=new_id, settings=settings.zss)
    links = [
        Link(front, security.router(settings, "zss")),
        Link(back, security.router(settings, "zss_backend")),
    ]
    return [link for link in links if getattr(settings.listen, link.name) != "off"]


def _memo(settings: BrokerSettings, codecs: BodyCodecs, security: ListenerSecurity) -> list[Link]:
    memoized = frozenset(n for n, s in settings.services.items() if s.memoize)
    memo = replace(settings.memo, memoized=memoized)
    tls = security.credentials.tls("memo")
    # Without certificates there is no key to check.
    replier = SpReplier(
        settings.listen.memo, tls=tls, admits=security.admission.admits if tls else None
    )
    return [Link(MemoSide(new_id, codecs, memo), replier)]


def _ncl(settings: BrokerSettings, codecs: BodyCodecs, security: ListenerSecurity) -> list[Link]:
    side = NclSide(codecs=codecs, ids=new_id, settings=settings.ncl)
    url, server = settings.listen.nats, None
    nkeys = security.admission.nkeys
    nodes = Nodes(nkeys) if nkeys is not None else None
    tls = security.credentials.tls("nats")
    if not url or url.startswith("tcp://"):
        own = urlsplit(url or "tcp://127.0.0.1:0")
        server = NatsServer(
            settings.data / "nats",
            host=own.hostname or "127.0.0.1",
            port=own.port or 0,
            preferred=0 if url else NATS_PORT,
            users=nodes.users if nodes is not None else None,
            tls=tls,
        )
    nkey, jwt = security.credentials.nats if server is None else (None, "")
    transport = Nats(
        url,
        side.subscriptions,
        server=server,
        nkey=nkey,
        jwt=jwt,
        tls=PeerTls(tls.authority.read_text()) if tls and (server or "tls:" in url) else None,
        keys=nodes.key_of if nodes is not None else None,
    )
    return [Link(side, transport, "nats")]


def _http(settings: BrokerSettings, codecs: BodyCodecs, security: ListenerSecurity) -> list[Link]:
    # Imported here: a broker without HTTP starts without the web server.
    from dragoman.web.http_transport import HttpTransport
    from dragoman.web.identity import Checks

    side = HttpSide(codecs=codecs)
    checks, to = None, security.admission
    if to.admits is not None and to.check_token is not None:
        checks = Checks(to.check_token, to.admits, to.principal_of, to.may_view, to.enrol)
    tls = security.credentials.tls("http")
    transport = HttpTransport(settings.listen.http, settings.http, new_id, checks=checks, tls=tls)
    return [Link(side, transport)]


#: Makes the links of each listener; one with several endpoints may have some of them off.
_MAKERS: Final[dict[str, Callable[[BrokerSettings, BodyCodecs, ListenerSecurity], list[Link]]]] = {
    "nfp": _nfp,
    "dcp": _dcp,
    "zss": _zss,
    "memo": _memo,
    "nats": _ncl,
    "http": _http,
}


_BESIDE: Final = {"zss": ("zss_backend",)}


def make_links(settings: BrokerSettings, hub: MemoryHub, admission: Admission = OPEN) -> list[Link]:
    """Make the links that the settings turn on, and the link of the built-in services.

    Args:
        settings: endpoints and credentials.
        hub: the memory transport of the built-in services.
        admission: the checks of peers.

    """
    codecs = make_body_codecs()
    security = ListenerSecurity(ListenerCredentials(settings), admission)
    warn_of_plain_listeners(settings, security.credentials)
    links = [Link(LocalSide(codecs), hub)]
    for name, make in _MAKERS.items():
        endpoints = (name, *_BESIDE.get(name, ()))
        if any(getattr(settings.listen, each) != "off" for each in endpoints):
            links += make(settings, codecs, security)
    return links
