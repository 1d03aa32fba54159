"""The descriptor of memo01."""

from typing import Any

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import Carrier, Dialect, Ids, ListenerSpec, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide


class MemoDialect(Dialect):
    """MemoDB's protocol, over NNG. A worker's concurrency is so many memo01 workers."""

    name = "memo"
    carrier = Carrier.SP
    listeners = (ListenerSpec("memo", "memo", 12703, "memo01 clients and workers"),)
    needs_order = True

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.memo01.body_codec import MemoBodyCodec

        return MemoBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.memo01.settings import MemoSettings

        return MemoSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: Any = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's end."""
        from dragoman.dialects.memo01.broker_side import MemoBrokerSide

        return (MemoBrokerSide(ids, codecs, settings),)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.memo01.client_side import MemoClientSide

        return MemoClientSide()

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.memo01.worker_side import MemoWorkerSide

        return MemoWorkerSide(spec.services, spec.concurrency, spec.labels)

    def client_window(self) -> object:
        """Return what bounds a client's open requests to those that the broker can serve."""
        from dragoman.dialects.memo01.window import Window

        return Window()


DIALECT = MemoDialect()
