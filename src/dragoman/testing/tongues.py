"""What a simulated peer of each dialect is made of: its sides, and the line it speaks on.

To add a dialect, add one line to `TONGUES`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dragoman.dialects.base import BrokerSide, Dress, Wardrobe
from dragoman.dialects.dcp.broker_side import BrokerSide as DcpBroker
from dragoman.dialects.dcp.client_side import ClientSide as DcpClient
from dragoman.dialects.dcp.dress import Dress as DcpDress
from dragoman.dialects.dcp.worker_side import WorkerSide as DcpWorker
from dragoman.dialects.memo01.broker_side import BrokerSide as MemoBroker
from dragoman.dialects.memo01.client_side import ClientSide as MemoClient
from dragoman.dialects.memo01.dress import MemoDress
from dragoman.dialects.memo01.worker_side import WorkerSide as MemoWorker
from dragoman.dialects.ncl.broker_side import BrokerSide as NclBroker
from dragoman.dialects.ncl.dress import Dress as NclDress
from dragoman.dialects.ncl.worker_side import WorkerSide as NclWorker
from dragoman.dialects.nfp.broker_side import BrokerSide as NfpBroker
from dragoman.dialects.nfp.client_side import ClientSide as NfpClient
from dragoman.dialects.nfp.dress import Dress as NfpDress
from dragoman.dialects.nfp.worker_side import WorkerSide as NfpWorker
from dragoman.dialects.talk import ClientSide, WorkerSide
from dragoman.dialects.zss.broker_side import broker_sides
from dragoman.dialects.zss.client_side import ClientSide as ZssClient
from dragoman.dialects.zss.dress import Dress as ZssDress
from dragoman.dialects.zss.worker_side import WorkerSide as ZssWorker
from dragoman.model.value import value
from dragoman.testing.lines import Dealer, Requester, Subscriber

Ids = Callable[[], str]
Clock = Callable[[], float]


@value
class Tongue:
    """How to make the ends of one dialect, and which links they meet on."""

    broker: Callable[[Wardrobe, Ids], tuple[BrokerSide, ...]]
    client: Callable[[Ids], ClientSide] | None
    worker: Callable[[str, str, Ids, Clock], WorkerSide]
    line: Callable[..., Any]
    client_link: str
    worker_link: str
    #: Its messages name no job everywhere, so it relies on a connection that keeps their order.
    needs_order: bool = False


TONGUES: Final[Mapping[str, Tongue]] = {
    "nfp": Tongue(
        lambda wardrobe, ids: (NfpBroker(wardrobe=wardrobe),),
        NfpClient,
        lambda name, service, ids, clock: NfpWorker(name, service, credit=2),
        Dealer,
        "nfp",
        "nfp",
    ),
    "dcp": Tongue(
        lambda wardrobe, ids: (DcpBroker(wardrobe=wardrobe, ids=ids),),
        lambda ids: DcpClient(),
        lambda name, service, ids, clock: DcpWorker(service, name=name, concurrency=2),
        Dealer,
        "dcp",
        "dcp",
        needs_order=True,
    ),
    "zss": Tongue(
        lambda wardrobe, ids: broker_sides(wardrobe=wardrobe, ids=ids),
        lambda ids: ZssClient(),
        lambda name, service, ids, clock: ZssWorker((service,), concurrency=2),
        Dealer,
        "zss",
        "zss_backend",
    ),
    "memo": Tongue(
        lambda wardrobe, ids: (MemoBroker(ids, wardrobe),),
        lambda ids: MemoClient(),
        lambda name, service, ids, clock: MemoWorker((service,), 2),
        Requester,
        "memo",
        "memo",
        needs_order=True,
    ),
    "ncl": Tongue(
        lambda wardrobe, ids: (NclBroker(wardrobe=wardrobe, ids=ids),),
        None,
        lambda name, service, ids, clock: NclWorker(
            name, (service,), ids=ids, clock=clock, slots=2
        ),
        Subscriber,
        "ncl",
        "ncl",
    ),
}


def make_wardrobe() -> Wardrobe:
    """Return every dialect's dress by name."""
    dresses: list[Dress] = [NfpDress(), DcpDress(), ZssDress(), MemoDress(), NclDress()]
    return {dress.name: dress for dress in dresses}
