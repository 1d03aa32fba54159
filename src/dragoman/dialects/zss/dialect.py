"""The descriptor of ZSS."""

from typing import Any

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import Carrier, Dialect, Ids, ListenerSpec, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide


class ZssDialect(Dialect):
    """The ZMQ Service Suite, over ZeroMQ. Clients and services have a listener each."""

    name = "zss"
    names_jobs = True
    carrier = Carrier.ZEROMQ
    listeners = (
        ListenerSpec("zss", "zss", 7777, "ZSS clients", has_workers=False),
        ListenerSpec("zss_backend", "zss", 7776, "ZSS services", has_clients=False),
    )
    key_is_job_id = True
    headers = (b"ZSS:0.0",)

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.zss.body_codec import ZssBodyCodec

        return ZssBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.zss.settings import ZssSettings

        return ZssSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: Any = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's ends."""
        from dragoman.dialects.zss.broker_side import broker_sides

        return broker_sides(codecs=codecs, ids=ids, settings=settings)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.zss.client_side import ZssClientSide

        return ZssClientSide()

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.zss.worker_side import ZssWorkerSide

        return ZssWorkerSide(spec.services, concurrency=spec.concurrency, labels=spec.labels)


DIALECT = ZssDialect()
