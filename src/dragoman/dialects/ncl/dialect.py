"""The descriptor of NCL."""

import re
from typing import Any, Final

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import (
    Carrier,
    Dialect,
    Ids,
    ListenerSpec,
    NodeSubjects,
    PeerTools,
    WorkerSpec,
)
from dragoman.dialects.peer_sides import ClientSide, WorkerSide

#: Characters that one token of a subject, and so a node id, cannot have.
_NOT_IN_TOKENS: Final = re.compile(r"[\s.*>\0]")
_YES: Final = frozenset({"1", "yes", "true", "on"})
_NO: Final = frozenset({"0", "no", "false", "off", ""})


class NclDialect(Dialect):
    """Bacalhau's protocol, over NATS. It has workers (compute nodes) and no clients."""

    name = "ncl"
    carrier = Carrier.NATS
    listeners = (
        ListenerSpec(
            "nats",
            "ncl",
            4222,
            "NCL compute nodes",
            has_clients=False,
            endpoint="",
            note=" Default: the broker's own nats-server on 127.0.0.1, port 4222 if free. "
            "`nats://` or `tls://` names another server.",
        ),
    )
    has_clients = False

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.ncl.body_codec import NclBodyCodec

        return NclBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.ncl.settings import OrchestratorSettings

        return OrchestratorSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: Any = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's end."""
        from dragoman.dialects.ncl.broker_side import NclBrokerSide

        return (NclBrokerSide(codecs=codecs, ids=ids, settings=settings),)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end, which raises `Unsupported`."""
        from dragoman.dialects.ncl.client_side import NclClientSide

        return NclClientSide()

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a compute node. Options of the URL are its settings, `store` and `fsync`."""
        from dragoman.dialects.ncl.settings import read_settings
        from dragoman.dialects.ncl.worker_side import NclWorkerSide

        options = dict(spec.options)
        path, sync = options.pop("store", ""), options.pop("fsync", "false").lower()
        if sync not in _YES and sync not in _NO:
            raise ValueError(f"fsync={sync} is not valid; use yes or no")
        settings = read_settings(options)
        open_store = tools.open_store if path else None
        return NclWorkerSide(
            node_id(spec.name),
            spec.services,
            ids=tools.ids,
            clock=tools.clock,
            slots=spec.concurrency,
            capacity=tools.capacity() if tools.capacity else None,
            labels=spec.labels,
            settings=settings,
            store=open_store(path, settings.remember, sync in _YES) if open_store else None,
        )

    def node_subjects(self) -> NodeSubjects:
        """Return the rules for the subjects of compute nodes."""
        return NclSubjects()


class NclSubjects:
    """Which subjects each compute node may use."""

    def is_node_id(self, name: str) -> bool:
        """Return whether a name can be a node id: one token of a subject."""
        from dragoman.dialects.ncl.wire import is_node_id

        return is_node_id(name)

    def may_publish(self, node: str) -> tuple[str, ...]:
        """Return the subjects that a node may publish to."""
        from dragoman.dialects.ncl.permissions import may_publish

        return may_publish(node)

    def may_subscribe(self, node: str) -> tuple[str, ...]:
        """Return the subjects that a node may subscribe to."""
        from dragoman.dialects.ncl.permissions import may_subscribe

        return may_subscribe(node)

    def node_of(self, subject: str) -> str:
        """Return the node that a subject belongs to; empty if none."""
        from dragoman.dialects.ncl.wire import parse_subject

        return parse_subject(subject)[1]


def node_id(name: str) -> str:
    """Turn a name into one token of a subject."""
    return _NOT_IN_TOKENS.sub("-", name)


DIALECT = NclDialect()
