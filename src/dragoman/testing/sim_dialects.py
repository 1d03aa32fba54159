"""A simulated peer of each dialect: its sides, and the connection it uses.

All of it comes from the descriptors of the dialects. HTTP has no simulated connection.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dragoman.dialects.base import BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import Carrier, Clock, Dialect, Ids, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide
from dragoman.dialects.registry import DIALECTS, body_codecs
from dragoman.testing.sim_connections import SimDealer, SimRequester, SimSubscriber

#: The simulated end of a peer's connection.
_CONNECTIONS: Final[Mapping[Carrier, Callable[..., Any]]] = {
    Carrier.ZEROMQ: SimDealer,
    Carrier.SP: SimRequester,
    Carrier.NATS: SimSubscriber,
}
#: Jobs that a simulated worker runs at a time.
_CONCURRENCY: Final = 2


class SimDialect:
    """Makes the ends of one dialect, and names the links that peers connect to."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.connection = _CONNECTIONS[dialect.carrier]
        self.has_clients = dialect.has_clients
        self.needs_order = dialect.needs_order
        self.is_strict = dialect.acknowledges
        sides = self.broker(body_codecs(), str)
        self.client_link, self.worker_link = sides[0].link, sides[-1].link

    def broker(self, codecs: BodyCodecs, ids: Ids) -> tuple[BrokerSide, ...]:
        """Make the broker's ends."""
        return self._dialect.broker_sides(codecs, ids)

    def client(self, ids: Ids) -> ClientSide:
        """Make a client's end."""
        return self._dialect.client_side("client", ids)

    def worker(self, name: str, service: str, ids: Ids, clock: Clock) -> WorkerSide:
        """Make a worker's end."""
        spec = WorkerSpec(name, (service,), _CONCURRENCY)
        return self._dialect.worker_side(spec, PeerTools(ids, clock))


SIM_DIALECTS: Final[Mapping[str, SimDialect]] = {
    name: SimDialect(dialect)
    for name, dialect in DIALECTS.items()
    if dialect.carrier in _CONNECTIONS
}
