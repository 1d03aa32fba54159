"""The descriptor of NFP."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import (
    Carrier,
    Dialect,
    Ids,
    ListenerSpec,
    ManagementTask,
    PeerTools,
    WorkerSpec,
)
from dragoman.dialects.facts import BrokerFacts
from dragoman.dialects.peer_sides import ClientSide, WorkerSide


class NfpDialect(Dialect):
    """NORFAB's protocol, over ZeroMQ."""

    name = "nfp"
    names_jobs = True
    carrier = Carrier.ZEROMQ
    listeners = (ListenerSpec("nfp", "nfp", 5555, "NFP clients and workers"),)
    acknowledges = True
    headers = (b"NFPC01", b"NFPW01", b"NFPB01")

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.nfp.body_codec import NfpBodyCodec

        return NfpBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.nfp.settings import NfpSettings

        return NfpSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: Any = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's end."""
        from dragoman.dialects.nfp.broker_side import NfpBrokerSide

        return (NfpBrokerSide(codecs=codecs, settings=settings),)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.nfp.client_side import NfpClientSide

        return NfpClientSide(ids)

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.nfp.worker_side import NfpWorkerSide

        return NfpWorkerSide(
            spec.name, spec.only_service, credit=spec.concurrency, labels=spec.labels
        )

    def management_tasks(self, settings: object) -> Mapping[str, ManagementTask]:
        """Return NorFab's management tasks."""
        from dragoman.dialects.nfp.management import TASKS

        return {name: partial(_answer, task, settings) for name, task in TASKS.items()}


def _answer(
    task: Callable[..., object], settings: object, facts: BrokerFacts, kwargs: Mapping[str, object]
) -> object:
    return task(facts, settings, kwargs)


DIALECT = NfpDialect()
