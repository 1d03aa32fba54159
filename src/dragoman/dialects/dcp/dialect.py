"""The descriptor of DCP."""

from typing import Any

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import Carrier, Dialect, Ids, ListenerSpec, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide


class DcpDialect(Dialect):
    """DagBox's protocol, over ZeroMQ."""

    name = "dcp"
    names_jobs = True
    carrier = Carrier.ZEROMQ
    listeners = (ListenerSpec("dcp", "dcp", 5566, "DCP clients and workers"),)
    key_is_job_id = True
    headers = (b"DGBX\x01",)
    needs_order = True

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.dcp.body_codec import DcpBodyCodec

        return DcpBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.dcp.settings import DcpSettings

        return DcpSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: Any = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's end."""
        from dragoman.dialects.dcp.broker_side import DcpBrokerSide

        return (DcpBrokerSide(codecs=codecs, ids=ids, settings=settings),)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.dcp.client_side import DcpClientSide

        return DcpClientSide()

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.dcp.worker_side import DcpWorkerSide

        return DcpWorkerSide(
            spec.only_service,
            name=spec.name,
            concurrency=spec.concurrency,
            labels=spec.labels,
        )


DIALECT = DcpDialect()
