"""Peer factories: side and transport of clients and workers, for each dialect.

Only this module of the SDK knows the dialects. Imports happen inside the methods: a program that
uses one dialect does not load the libraries of the others.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from dragoman.dialects.peer_sides import ClientSide, WorkerSide
from dragoman.model.value import value
from dragoman.sdk.credentials import NONE, Credentials
from dragoman.sdk.url import Endpoint
from dragoman.transports.base import Transport

if TYPE_CHECKING:
    from dragoman.transports.tls import PeerTls
    from dragoman.transports.zmq import CurveKeys

Ids = Callable[[], str]
_YES: Final = frozenset({"1", "yes", "true", "on"})
_NO: Final = frozenset({"0", "no", "false", "off", ""})


@value
class WorkerSpec:
    """What a worker announces when it joins."""

    name: str
    services: tuple[str, ...]
    concurrency: int
    labels: Mapping[str, str]
    #: The query parameters of the worker's URL.
    options: tuple[tuple[str, str], ...] = ()

    @property
    def only_service(self) -> str:
        """The service, for dialects whose workers offer exactly one."""
        if len(self.services) != 1:
            raise ValueError(f"a worker of this dialect offers one service, not {self.services}")
        return self.services[0]


class PeerFactory(Protocol):
    """Makes the side and the transport of a dialect's clients and workers."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        ...

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Make a client's transport."""
        ...

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side."""
        ...

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Make a worker's transport, with a heartbeat proxy if asked and possible."""
        ...


class ZeroMqPeerFactory:
    """Shared by the ZeroMQ dialects: a DEALER whose identity is the peer's name."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials

    def _keys(self) -> "CurveKeys | None":
        from dragoman.transports.zmq import CurveKeys

        own = self._credentials
        if own.has_curve:
            return CurveKeys(own.public.encode(), own.secret.encode(), own.server.encode())
        if own.public:
            raise ValueError("the broker's public CURVE key is missing; give it with --server-key")
        return None

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Connect a DEALER."""
        from dragoman.transports.zmq import ZmqDealer

        return ZmqDealer(endpoint.address, name.encode(), keys=self._keys())

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect a DEALER, in this process or in a heartbeat proxy."""
        if own_process_beats:
            from dragoman.sdk.proxied_dealer import ProxiedDealer

            return ProxiedDealer(endpoint.address, spec.name.encode(), self._keys())
        return self.client_transport(endpoint, spec.name)


class NfpPeerFactory(ZeroMqPeerFactory):
    """NORFAB's protocol."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        from dragoman.dialects.nfp.client_side import NfpClientSide as Side

        return Side(ids)

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side."""
        from dragoman.dialects.nfp.worker_side import NfpWorkerSide as Side

        return Side(spec.name, spec.only_service, credit=spec.concurrency, labels=spec.labels)


class DcpPeerFactory(ZeroMqPeerFactory):
    """DagBox's protocol."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        from dragoman.dialects.dcp.client_side import DcpClientSide as Side

        return Side()

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side."""
        from dragoman.dialects.dcp.worker_side import DcpWorkerSide as Side

        service, slots = spec.only_service, spec.concurrency
        return Side(service, name=spec.name, concurrency=slots, labels=spec.labels)


class ZssPeerFactory(ZeroMqPeerFactory):
    """The ZMQ Service Suite."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        from dragoman.dialects.zss.client_side import ZssClientSide as Side

        return Side()

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side; ZSS calls it a service."""
        from dragoman.dialects.zss.worker_side import ZssWorkerSide as Side

        return Side(spec.services, concurrency=spec.concurrency, labels=spec.labels)


def peer_tls(credentials: Credentials) -> "PeerTls | None":
    """Return the TLS settings of a peer; None if its credentials have none."""
    from dragoman.transports.tls import PeerTls

    if not credentials.has_tls:
        return None
    return PeerTls(credentials.authority, credentials.certificate, credentials.key)


class MemoPeerFactory:
    """MemoDB's protocol, over NNG. A worker's concurrency is so many memo01 workers."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        from dragoman.dialects.memo01.client_side import MemoClientSide as Side

        return Side()

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Connect a requester with a bounded number of open requests."""
        from dragoman.dialects.memo01.window import Window
        from dragoman.transports.nng import RESEND_NEVER, NngRequester

        tls = peer_tls(self._credentials)
        return NngRequester(endpoint.address, Window(), resend_after=RESEND_NEVER, tls=tls)

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side."""
        from dragoman.dialects.memo01.worker_side import MemoWorkerSide as Side

        return Side(spec.services, spec.concurrency, spec.labels)

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect a requester. A busy memo01 worker sends no heartbeats, so it needs no proxy."""
        from dragoman.transports.nng import NngRequester

        return NngRequester(endpoint.address, tls=peer_tls(self._credentials))


class NclPeerFactory:
    """Bacalhau's protocol, over NATS. It has workers (compute nodes) and no clients."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials
        self._subscriptions: tuple[str, ...] = ()

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side that refuses every request."""
        from dragoman.dialects.ncl.client_side import NclClientSide as Side

        return Side()

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Refuse: NCL has no clients."""
        raise ValueError("NCL has no client role; call with nfp, dcp, zss, memo or http")

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a compute node. URL parameters are its settings, `store` and `fsync`."""
        import re
        import time

        from dragoman.dialects.ncl.settings import read_settings
        from dragoman.dialects.ncl.worker_side import NclWorkerSide as Side
        from dragoman.sdk.journal import open_store
        from dragoman.sdk.machine import machine_capacity

        options = dict(spec.options)
        path, sync = options.pop("store", ""), options.pop("fsync", "false").lower()
        if sync not in _YES and sync not in _NO:
            raise ValueError(f"fsync={sync} is not valid; use yes or no")
        settings = read_settings(options)
        side = Side(
            # A node's id is one token of a subject.
            re.sub(r"[\s.*>\0]", "-", spec.name),
            spec.services,
            ids=ids,
            clock=time.time,
            slots=spec.concurrency,
            capacity=machine_capacity(),
            labels=spec.labels,
            settings=settings,
            store=open_store(path, settings.remember, is_synced=sync in _YES) if path else None,
        )
        self._subscriptions = side.subscriptions
        return side

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect to NATS. A node may be silent for minutes without losing work: no proxy."""
        from dragoman.transports.nats import NatsPeer
        from dragoman.transports.nkeys import Nkey

        seed = self._credentials.seed
        return NatsPeer(
            endpoint.address,
            self._subscriptions,
            name=spec.name,
            connects_in_background=True,
            nkey=Nkey.from_seed(seed) if seed else None,
            tls=peer_tls(self._credentials),
        )


class HttpPeerFactory:
    """HTTP: requests, one event stream for each client, long polls for workers."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        from dragoman.dialects.http.client_side import HttpClientSide as Side

        return Side(name)

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Make a requester that repeats requests until they are answered."""
        from dragoman.transports.http import HttpRequester
        from dragoman.transports.tls import PeerTls

        tls = peer_tls(self._credentials)
        if tls is None and endpoint.is_secure:
            # Without an authority of the broker's own, use those of the system.
            tls = PeerTls()
        return HttpRequester(endpoint.address, tls=tls, token=self._credentials.token)

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side."""
        from dragoman.dialects.http.worker_side import HttpWorkerSide as Side

        return Side(spec.name, spec.services, credit=spec.concurrency, labels=spec.labels)

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Make a requester. An open poll is the heartbeat, so no proxy is needed."""
        return self.client_transport(endpoint, spec.name)


_FACTORIES: Final[dict[str, Callable[[Credentials], PeerFactory]]] = {
    "nfp": NfpPeerFactory,
    "dcp": DcpPeerFactory,
    "zss": ZssPeerFactory,
    "memo": MemoPeerFactory,
    "ncl": NclPeerFactory,
    "http": HttpPeerFactory,
}


#: The dialects of the SDK.
DIALECTS: Final = tuple(_FACTORIES)


def peer_factory_for(dialect: str, credentials: Credentials = NONE) -> PeerFactory:
    """Return a dialect's factory. Raises ValueError for an unknown dialect."""
    try:
        return _FACTORIES[dialect](credentials)
    except KeyError:
        known = ", ".join(_FACTORIES)
        raise ValueError(f"unknown dialect {dialect!r}; use one of {known}") from None
