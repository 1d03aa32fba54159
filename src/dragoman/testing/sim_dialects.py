"""The parts of a simulated peer of each dialect: its sides and its connection.

To add a dialect, add one entry to `SIM_DIALECTS`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.dcp.body_codec import DcpBodyCodec as DcpDress
from dragoman.dialects.dcp.broker_side import DcpBrokerSide as DcpBroker
from dragoman.dialects.dcp.client_side import DcpClientSide as DcpClient
from dragoman.dialects.dcp.worker_side import DcpWorkerSide as DcpWorker
from dragoman.dialects.memo01.body_codec import MemoBodyCodec
from dragoman.dialects.memo01.broker_side import MemoBrokerSide as MemoBroker
from dragoman.dialects.memo01.client_side import MemoClientSide as MemoClient
from dragoman.dialects.memo01.worker_side import MemoWorkerSide as MemoWorker
from dragoman.dialects.ncl.body_codec import NclBodyCodec as NclDress
from dragoman.dialects.ncl.broker_side import NclBrokerSide as NclBroker
from dragoman.dialects.ncl.worker_side import NclWorkerSide as NclWorker
from dragoman.dialects.nfp.body_codec import NfpBodyCodec as NfpDress
from dragoman.dialects.nfp.broker_side import NfpBrokerSide as NfpBroker
from dragoman.dialects.nfp.client_side import NfpClientSide as NfpClient
from dragoman.dialects.nfp.worker_side import NfpWorkerSide as NfpWorker
from dragoman.dialects.peer_sides import ClientSide, WorkerSide
from dragoman.dialects.zss.body_codec import ZssBodyCodec as ZssDress
from dragoman.dialects.zss.broker_side import broker_sides
from dragoman.dialects.zss.client_side import ZssClientSide as ZssClient
from dragoman.dialects.zss.worker_side import ZssWorkerSide as ZssWorker
from dragoman.model.value import value
from dragoman.testing.sim_connections import SimDealer, SimRequester, SimSubscriber

Ids = Callable[[], str]
Clock = Callable[[], float]


@value
class SimDialect:
    """How to make the sides of one dialect, and their links."""

    broker: Callable[[BodyCodecs, Ids], tuple[BrokerSide, ...]]
    client: Callable[[Ids], ClientSide] | None
    worker: Callable[[str, str, Ids, Clock], WorkerSide]
    connection: Callable[..., Any]
    client_link: str
    worker_link: str
    #: Some of its messages name no job, so it relies on the order of a connection.
    needs_order: bool = False


SIM_DIALECTS: Final[Mapping[str, SimDialect]] = {
    "nfp": SimDialect(
        lambda codecs, ids: (NfpBroker(codecs=codecs),),
        NfpClient,
        lambda name, service, ids, clock: NfpWorker(name, service, credit=2),
        SimDealer,
        "nfp",
        "nfp",
    ),
    "dcp": SimDialect(
        lambda codecs, ids: (DcpBroker(codecs=codecs, ids=ids),),
        lambda ids: DcpClient(),
        lambda name, service, ids, clock: DcpWorker(service, name=name, concurrency=2),
        SimDealer,
        "dcp",
        "dcp",
        needs_order=True,
    ),
    "zss": SimDialect(
        lambda codecs, ids: broker_sides(codecs=codecs, ids=ids),
        lambda ids: ZssClient(),
        lambda name, service, ids, clock: ZssWorker((service,), concurrency=2),
        SimDealer,
        "zss",
        "zss_backend",
    ),
    "memo": SimDialect(
        lambda codecs, ids: (MemoBroker(ids, codecs),),
        lambda ids: MemoClient(),
        lambda name, service, ids, clock: MemoWorker((service,), 2),
        SimRequester,
        "memo",
        "memo",
        needs_order=True,
    ),
    "ncl": SimDialect(
        lambda codecs, ids: (NclBroker(codecs=codecs, ids=ids),),
        None,
        lambda name, service, ids, clock: NclWorker(
            name, (service,), ids=ids, clock=clock, slots=2
        ),
        SimSubscriber,
        "ncl",
        "ncl",
    ),
}


def make_body_codecs() -> BodyCodecs:
    """Return the body codec of every dialect by name."""
    dresses: list[BodyCodec] = [NfpDress(), DcpDress(), ZssDress(), MemoBodyCodec(), NclDress()]
    return {codec.name: codec for codec in dresses}
