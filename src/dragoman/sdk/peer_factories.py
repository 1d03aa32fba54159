"""Kits: what a peer of each dialect is made of. The only place where the SDK knows dialects apart.

Everything is imported when it is first asked for: a program that speaks one dialect does not load
the libraries of the others.
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
    """What a worker says of itself."""

    name: str
    services: tuple[str, ...]
    concurrency: int
    labels: Mapping[str, str]
    #: What the worker's URL says after its question mark.
    options: tuple[tuple[str, str], ...] = ()

    @property
    def only_service(self) -> str:
        """The service, for dialects whose workers have one each."""
        if len(self.services) != 1:
            raise ValueError(f"a worker of this dialect offers one service, not {self.services}")
        return self.services[0]


class PeerFactory(Protocol):
    """How to make the four things a dialect's peers consist of."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        ...

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Make what carries it."""
        ...

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker's end."""
        ...

    def worker_transport(
        self, endpoint: Endpoint, offer: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Make what carries it; with a process of its own for the beats where that is possible."""
        ...


class ZeroMqPeerFactory:
    """What the ZeroMQ dialects share: a DEALER whose identity is the peer's name."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials

    def _keys(self) -> "CurveKeys | None":
        from dragoman.transports.zmq import CurveKeys

        own = self._credentials
        if own.has_curve:
            return CurveKeys(own.public.encode(), own.secret.encode(), own.server.encode())
        if own.public:
            raise ValueError("the broker's public key is not known: give its --server-key")
        return None

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Connect a DEALER."""
        from dragoman.transports.zmq import ZmqDealer

        return ZmqDealer(endpoint.address, name.encode(), keys=self._keys())

    def worker_transport(
        self, endpoint: Endpoint, offer: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect a DEALER, here or in a courier's process."""
        if own_process_beats:
            from dragoman.sdk.proxied_dealer import ProxiedDealer

            return ProxiedDealer(endpoint.address, offer.name.encode(), self._keys())
        return self.client_transport(endpoint, offer.name)


class NfpPeerFactory(ZeroMqPeerFactory):
    """NORFAB's protocol."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.nfp.client_side import NfpClientSide as Side

        return Side(ids)

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.nfp.worker_side import NfpWorkerSide as Side

        return Side(offer.name, offer.only_service, credit=offer.concurrency, labels=offer.labels)


class DcpPeerFactory(ZeroMqPeerFactory):
    """DagBox's protocol."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.dcp.client_side import DcpClientSide as Side

        return Side()

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.dcp.worker_side import DcpWorkerSide as Side

        service, hands = offer.only_service, offer.concurrency
        return Side(service, name=offer.name, concurrency=hands, labels=offer.labels)


class ZssPeerFactory(ZeroMqPeerFactory):
    """The ZMQ Service Suite."""

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.zss.client_side import ZssClientSide as Side

        return Side()

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a service's end."""
        from dragoman.dialects.zss.worker_side import ZssWorkerSide as Side

        return Side(offer.services, concurrency=offer.concurrency, labels=offer.labels)


def peer_tls(credentials: Credentials) -> "PeerTls | None":
    """Return what a peer needs for TLS, if its credentials ask for that."""
    from dragoman.transports.tls import PeerTls

    if not credentials.has_tls:
        return None
    return PeerTls(credentials.authority, credentials.certificate, credentials.key)


class MemoPeerFactory:
    """MemoDB's protocol, over NNG. A worker's concurrency is so many memo01 workers."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.memo01.client_side import MemoClientSide as Side

        return Side()

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Connect a requester that has no more requests open than the broker can serve."""
        from dragoman.dialects.memo01.window import Window
        from dragoman.transports.nng import RESEND_NEVER, NngRequester

        tls = peer_tls(self._credentials)
        return NngRequester(endpoint.address, Window(), resend_after=RESEND_NEVER, tls=tls)

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.memo01.worker_side import MemoWorkerSide as Side

        return Side(offer.services, offer.concurrency, offer.labels)

    def worker_transport(
        self, endpoint: Endpoint, offer: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect a requester. A busy memo01 worker owes no beats, so no courier is needed."""
        from dragoman.transports.nng import NngRequester

        return NngRequester(endpoint.address, tls=peer_tls(self._credentials))


class NclPeerFactory:
    """Bacalhau's protocol, over NATS. It has workers (compute nodes) and no clients."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials
        self._subscriptions: tuple[str, ...] = ()

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end, which says that there is none."""
        from dragoman.dialects.ncl.client_side import NclClientSide as Side

        return Side()

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Refuse: NCL has no clients."""
        raise ValueError("NCL has no client role; call with nfp, dcp, zss, memo or http")

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a compute node; options of the URL are its settings, and its `store`."""
        import re
        import time

        from dragoman.dialects.ncl.settings import read_settings
        from dragoman.dialects.ncl.worker_side import NclWorkerSide as Side
        from dragoman.sdk.journal import open_store

        options = dict(offer.options)
        path, sync = options.pop("store", ""), options.pop("fsync", "false").lower()
        if sync not in _YES and sync not in _NO:
            raise ValueError(f"fsync={sync}: say yes or no")
        settings = read_settings(options)
        side = Side(
            # A node's id is one token of a subject.
            re.sub(r"[\s.*>\0]", "-", offer.name),
            offer.services,
            ids=ids,
            clock=time.time,
            slots=offer.concurrency,
            labels=offer.labels,
            settings=settings,
            store=open_store(path, settings.remember, is_synced=sync in _YES) if path else None,
        )
        self._subscriptions = side.subscriptions
        return side

    def worker_transport(
        self, endpoint: Endpoint, offer: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect to NATS. A node may be silent for minutes without losing work: no courier."""
        from dragoman.transports.nats import NatsPeer
        from dragoman.transports.nkeys import Nkey

        seed = self._credentials.seed
        return NatsPeer(
            endpoint.address,
            self._subscriptions,
            name=offer.name,
            connects_in_background=True,
            nkey=Nkey.from_seed(seed) if seed else None,
            tls=peer_tls(self._credentials),
        )


class HttpPeerFactory:
    """The HTTP door: requests, one stream of all that a client is told, and long polls."""

    def __init__(self, credentials: Credentials = NONE) -> None:
        self._credentials = credentials

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.http.client_side import HttpClientSide as Side

        return Side(name)

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Make what asks, and asks again until it is answered."""
        from dragoman.transports.http import HttpRequester
        from dragoman.transports.tls import PeerTls

        tls = peer_tls(self._credentials)
        if tls is None and endpoint.is_secure:
            # Without an authority of its own, the broker is vouched for by those of the system.
            tls = PeerTls()
        return HttpRequester(endpoint.address, tls=tls, token=self._credentials.token)

    def worker_side(self, offer: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.http.worker_side import HttpWorkerSide as Side

        return Side(offer.name, offer.services, credit=offer.concurrency, labels=offer.labels)

    def worker_transport(
        self, endpoint: Endpoint, offer: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Make what polls. A poll that waits is a beat, so no courier is needed."""
        return self.client_transport(endpoint, offer.name)


_KITS: Final[dict[str, Callable[[Credentials], PeerFactory]]] = {
    "nfp": NfpPeerFactory,
    "dcp": DcpPeerFactory,
    "zss": ZssPeerFactory,
    "memo": MemoPeerFactory,
    "ncl": NclPeerFactory,
    "http": HttpPeerFactory,
}


#: The dialects a peer can be made of.
DIALECTS: Final = tuple(_KITS)


def peer_factory_for(dialect: str, credentials: Credentials = NONE) -> PeerFactory:
    """Return a dialect's kit. Raises ValueError for one that has none."""
    try:
        return _KITS[dialect](credentials)
    except KeyError:
        raise ValueError(f"no peers of dialect {dialect!r} can be made; try {[*_KITS]}") from None
