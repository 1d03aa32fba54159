"""Peer factories: side and transport of clients and workers.

The descriptor of a dialect makes the sides; each carrier has a factory here for its transports.
Imports happen inside the methods: a program that uses one dialect does not load the libraries of
the others.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.dialects.descriptor import Carrier, Dialect, Ids, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide
from dragoman.dialects.registry import DIALECTS
from dragoman.extras import explain_missing
from dragoman.sdk.credentials import NONE, Credentials
from dragoman.sdk.url import Endpoint
from dragoman.transports.base import Transport

if TYPE_CHECKING:
    from dragoman.transports.nkeys import Nkey
    from dragoman.transports.tls import PeerTls
    from dragoman.transports.zmq import CurveKeys

__all__ = ["PeerFactory", "WorkerSpec", "peer_factory_for"]


class PeerFactory:
    """Makes the side and the transport of a dialect's clients and workers."""

    def __init__(self, dialect: Dialect, credentials: Credentials = NONE) -> None:
        self._dialect = dialect
        self._credentials = credentials

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client side."""
        return self._dialect.client_side(name, ids)

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Make a client's transport."""
        raise NotImplementedError

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side."""
        import time

        from dragoman.sdk.machine import machine_capacity

        tools = PeerTools(ids, time.time, _open_store, machine_capacity)
        return self._dialect.worker_side(spec, tools)

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Make a worker's transport, with a heartbeat proxy if asked and possible."""
        return self.client_transport(endpoint, spec.name)


def _open_store(path: str, remember: int, is_synced: bool) -> Any:
    from dragoman.sdk.journal import open_store

    return open_store(path, remember, is_synced=is_synced)


class ZeroMqPeerFactory(PeerFactory):
    """ZeroMQ: a DEALER whose identity is the peer's name."""

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
        from dragoman.transports.dealer import Dealer

        return Dealer(endpoint.address, name.encode(), keys=self._keys())

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect a DEALER, in this process or in a process that sends heartbeats.

        With CURVE every heartbeat has a number of its own, so that process needs the whole session:
        a heartbeat proxy. Without, a relay that passes bytes is enough, and costs a tenth of it.
        """
        keys = self._keys()
        if not own_process_beats:
            return self.client_transport(endpoint, spec.name)
        if keys is None and endpoint.address.startswith("tcp://"):
            from dragoman.sdk.relayed_dealer import RelayedDealer

            return RelayedDealer(endpoint.address, spec.name.encode())
        from dragoman.sdk.proxied_dealer import ProxiedDealer

        return ProxiedDealer(endpoint.address, spec.name.encode(), keys)


def peer_tls(credentials: Credentials) -> "PeerTls | None":
    """Return the TLS settings of a peer; None if its credentials have none."""
    from dragoman.transports.tls import PeerTls

    if not credentials.has_tls:
        return None
    return PeerTls(credentials.authority, credentials.certificate, credentials.key)


class SpPeerFactory(PeerFactory):
    """NNG: requests and replies."""

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Connect a requester with a bounded number of open requests."""
        from dragoman.transports.nng import RESEND_NEVER, NngRequester

        tls, window = peer_tls(self._credentials), self._dialect.client_window()
        return NngRequester(endpoint.address, window, resend_after=RESEND_NEVER, tls=tls)

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect a requester. A busy memo01 worker sends no heartbeats, so it needs no proxy."""
        from dragoman.transports.nng import NngRequester

        return NngRequester(endpoint.address, tls=peer_tls(self._credentials))


class NatsPeerFactory(PeerFactory):
    """NATS. The worker side names the subjects that its transport subscribes to."""

    _subscriptions: tuple[str, ...] = ()

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Refuse: the dialects on NATS have no clients."""
        others = ", ".join(each.name for each in DIALECTS.values() if each.has_clients)
        raise ValueError(f"{self._dialect.name.upper()} has no client role; call with {others}")

    def worker_side(self, spec: WorkerSpec, ids: Ids) -> WorkerSide:
        """Make a worker side, and keep its subscriptions."""
        side = super().worker_side(spec, ids)
        self._subscriptions = getattr(side, "subscriptions", ())
        return side

    def worker_transport(
        self, endpoint: Endpoint, spec: WorkerSpec, own_process_beats: bool
    ) -> Transport:
        """Connect to NATS. A node may be silent for minutes without losing work: no proxy."""
        from dragoman.transports.nats import NatsPeer

        return NatsPeer(
            endpoint.address,
            self._subscriptions,
            name=spec.name,
            connects_in_background=True,
            nkey=_read_nkey(self._credentials.seed),
            tls=peer_tls(self._credentials),
        )


class HttpPeerFactory(PeerFactory):
    """HTTP: requests, one event stream for each client, long polls for workers.

    An open poll is the heartbeat, so workers need no proxy.
    """

    def client_transport(self, endpoint: Endpoint, name: str) -> Transport:
        """Make a requester that repeats requests until they are answered."""
        from dragoman.transports.http import HttpRequester
        from dragoman.transports.tls import PeerTls

        tls = peer_tls(self._credentials)
        if tls is None and endpoint.is_secure:
            # Without an authority of the broker's own, use those of the system.
            tls = PeerTls()
        token, file = self._credentials.token, self._credentials.token_file
        return HttpRequester(
            endpoint.address, tls=tls, token=token, token_file=Path(file) if file else None
        )


_FACTORIES: Final[dict[Carrier, Callable[[Dialect, Credentials], PeerFactory]]] = {
    Carrier.ZEROMQ: ZeroMqPeerFactory,
    Carrier.SP: SpPeerFactory,
    Carrier.NATS: NatsPeerFactory,
    Carrier.HTTP: HttpPeerFactory,
}


def peer_factory_for(dialect: str, credentials: Credentials = NONE) -> PeerFactory:
    """Return a dialect's factory. Raises ValueError for an unknown dialect."""
    found = DIALECTS.get(dialect)
    if found is None:
        raise ValueError(f"unknown dialect {dialect!r}; use one of {', '.join(DIALECTS)}")
    return _FACTORIES[found.carrier](found, credentials)


def _read_nkey(seed: str) -> "Nkey | None":
    """Read the secret of a NATS user; None if there is none. Needs the extra `keys`."""
    if not seed:
        return None
    try:
        from dragoman.transports.nkeys import Nkey
    except ModuleNotFoundError as error:
        text = explain_missing(error, "ncl:// with credentials")
        raise ModuleNotFoundError(text, name=error.name) from None
    return Nkey.from_seed(seed)
