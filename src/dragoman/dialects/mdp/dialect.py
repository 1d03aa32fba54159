"""The descriptor of MDP."""

from typing import Any

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide, Frames
from dragoman.dialects.descriptor import Carrier, Dialect, Ids, ListenerSpec, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide


class MdpDialect(Dialect):
    """The Majordomo Protocol, over ZeroMQ."""

    name = "mdp"
    names_jobs = True
    carrier = Carrier.ZEROMQ
    listeners = (ListenerSpec("mdp", "mdp", 5550, "MDP clients and workers"),)
    headers = (b"MDPC01", b"MDPC02", b"MDPW01", b"MDPW02")

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.mdp.body_codec import MdpBodyCodec

        return MdpBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.mdp.settings import MdpSettings

        return MdpSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: Any = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's end."""
        from dragoman.dialects.mdp.broker_side import MdpBrokerSide

        return (MdpBrokerSide(codecs=codecs, ids=ids, settings=settings),)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.mdp.client_side import MdpClientSide

        return MdpClientSide()

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.mdp.worker_side import MdpWorkerSide

        return MdpWorkerSide(
            spec.only_service,
            name=spec.name,
            concurrency=spec.concurrency,
            labels=spec.labels,
        )

    def fuzz_seeds(self, listener: str) -> list[Frames]:
        """Return one message of each kind, plain and with notes."""
        from dragoman.dialects.mdp.seeds import SEEDS

        return SEEDS


DIALECT = MdpDialect()
