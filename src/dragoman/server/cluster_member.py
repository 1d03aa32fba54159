"""What a node of a cluster has beside its broker: a nats-server, streams, and the other members.

It opens before the broker and closes after it. Until enough nodes are up there is no stream, and
`open` waits for it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

import structlog

from dragoman.dialects.listeners import OFF
from dragoman.dialects.registry import DIALECTS, body_codecs
from dragoman.ledger.base import LedgerError
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.reader import LedgerReader
from dragoman.server.cluster_node import ClusterNode, Role
from dragoman.server.cluster_pass_through import (
    ClusterPassThrough,
    advertise,
    require_fixed_ports,
)
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.cluster_sync import ask_sync
from dragoman.server.cluster_watch import ClusterWatch
from dragoman.server.lease import LeaseHolder
from dragoman.server.member_channel import Content, MemberChannel
from dragoman.server.settings import BrokerSettings
from dragoman.server.wiring import dialect_settings, new_id
from dragoman.transports.jetstream import JetStream
from dragoman.transports.jetstream_bucket import JetStreamBucket
from dragoman.transports.jetstream_connection import JetStreamConnection
from dragoman.transports.nats_cluster import (
    LEDGER_USER,
    NatsCluster,
    RouteTls,
    ledger_password,
)
from dragoman.transports.nats_server import NatsServer
from dragoman.transports.origins import ORIGINS

log = structlog.get_logger("dragoman.cluster")

#: The folder of the nats-server, in the data folder.
CLUSTER_FOLDER: Final = "cluster"
_SECTION: Final = "node.json"
_VERSION: Final = version("dragoman")
#: Seconds that the leader has to note whose connection comes.
_ANNOUNCE: Final = 1.0
#: Answers that are waited for if the number of nodes is not known.
_MOST_NODES: Final = 1000
#: Seconds of the lease; a take-over after a crash waits for its end.
LEASE_TTL: Final = 2.0
#: Seconds that a node without records leaves the lead of a new cluster to a restored one.
SETTLE: Final = 3.0


class ClusterBroker(Protocol):
    """What the other members may ask of a broker."""

    @property
    def role(self) -> Role:
        """Its role now."""
        ...

    @property
    def leader(self) -> LeaseHolder | None:
        """The newest known leader."""
        ...

    @property
    def lag(self) -> int:
        """Records that its copy is behind."""
        ...

    def step_down(self) -> None:
        """Hand the lead over to another node."""
        ...


def stream_name(cluster: str) -> str:
    """Return the name of the stream that has the ledger of a cluster."""
    return f"DRAGOMAN_{cluster}"


def bucket_name(cluster: str) -> str:
    """Return the name of the bucket that has the leases of a cluster."""
    return f"dragoman-{cluster}"


def own_url(section: ClusterSection, data: Path) -> str:
    """Return the URL of a node's NATS, with user and password. Raises ValueError."""
    if section.nats:
        return section.nats
    try:
        port = int((data / CLUSTER_FOLDER / "port").read_text())
    except (OSError, ValueError):
        raise ValueError(f"node {section.node} has never run with {data}") from None
    return f"nats://{LEDGER_USER}:{ledger_password(section.read_token(data))}@127.0.0.1:{port}"


def remember_section(section: ClusterSection, data: Path) -> None:
    """Write down how this node runs, for commands: flags of `up` are in no file."""
    path = data / CLUSTER_FOLDER / _SECTION
    path.touch(mode=0o600)
    token = None if section.token is None else section.token.resolve()
    path.write_text(section.model_copy(update={"token": token}).model_dump_json(indent=2) + "\n")


def find_section(settings: BrokerSettings) -> ClusterSection:
    """Return how a node runs: by its settings, or as it was started last. Raises ValueError."""
    found = settings.cluster if settings.cluster.name else remembered_section(settings.data)
    if found is None:
        raise ValueError(
            f"no node of a cluster has run with {settings.data}; use --data or --config"
        )
    return found


def remembered_section(data: Path) -> ClusterSection | None:
    """Return how the node with this data folder was started last; None: there is none."""
    try:
        text = (data / CLUSTER_FOLDER / _SECTION).read_text()
    except OSError:
        return None
    return ClusterSection.model_validate_json(text)


class ClusterMember:
    """One node's part in its cluster."""

    def __init__(self, settings: BrokerSettings) -> None:
        require_fixed_ports(settings)
        require_encryption(settings)
        self._settings = settings
        self._server = make_nats_server(settings) if not settings.cluster.nats else None
        self._channel: MemberChannel | None = None
        self._connection: JetStreamConnection | None = None
        self._broker: ClusterBroker | None = None
        self._watch: ClusterWatch | None = None

    async def open(self) -> ClusterNode:
        """Start the nats-server, and wait until the stream has its quorum."""
        section = self._settings.cluster
        (self._settings.data / CLUSTER_FOLDER).mkdir(0o700, parents=True, exist_ok=True)
        if self._server is not None:
            await self._server.start()
        # A standby that takes over must not read hundreds of modules from the disk first.
        await asyncio.to_thread(load_modules, self._settings)
        remember_section(section, self._settings.data)
        url = own_url(section, self._settings.data)
        self._channel = MemberChannel(url, section.name, section.node, self._handlers())
        await self._channel.open()
        stream, bucket = await self._until_quorum(url)
        await self._report_sync()
        passing = ClusterPassThrough(self._settings, self._announce)
        publish = partial(advertise, self._settings)
        self._watch = watch = ClusterWatch(
            section.size, self._ask_all, stream.servers, self._is_leading
        )
        watch.start()
        return ClusterNode(
            section.node,
            stream,
            bucket,
            LEASE_TTL,
            passing,
            publish,
            SETTLE,
            watched=lambda: watch.state,
            ask_nodes=self._ask_nodes,
        )

    async def _report_sync(self) -> None:
        """Say loudly if servers that are not our own may lose acknowledged work."""
        section = self._settings.cluster
        if not section.nats:
            return
        assert self._channel is not None
        found = await ask_sync(section, self._channel, stream_name(section.name))
        say = log.info if found.is_known_safe else log.error if found.weak else log.warning
        say(found.describe(), servers=found.as_text())

    async def _ask_all(self) -> list[Content]:
        assert self._channel is not None
        most = self._settings.cluster.size or _MOST_NODES
        return await self._channel.ask_all("status", _ANNOUNCE, most)

    def _is_leading(self) -> bool:
        return self._broker is not None and self._broker.role is Role.LEADER

    async def _until_quorum(self, url: str) -> tuple[JetStream, JetStreamBucket]:
        section = self._settings.cluster
        about = {"cluster": section.name, "node": section.node, "join": section.join}
        log.info(
            "waits until all nodes run, or a majority of them if they have run before", **about
        )
        while True:
            try:
                return await asyncio.to_thread(self._open_streams, url)
            except OSError as error:  # TimeoutError and ConnectionError are among them
                said = "" if self._server is None else self._server.last_complaint
                log.warning(
                    "waits for the other nodes of the cluster",
                    **about,
                    error=str(error),
                    nats_server=said or "no complaint",
                )

    def _open_streams(self, url: str) -> tuple[JetStream, JetStreamBucket]:
        section = self._settings.cluster
        name, copies = section.name, section.copies
        if self._connection is None:
            servers, user, password = split_secret(url)
            own = f"dragoman {section.node}"
            self._connection = JetStreamConnection(servers, user=user, password=password, name=own)
        subject = f"dragoman.ledger.{name}"
        stream = JetStream.open(self._connection, stream_name(name), subject, copies)
        bucket = JetStreamBucket.open(self._connection, bucket_name(name), copies, LEASE_TTL)
        return stream, bucket

    def attach(self, broker: ClusterBroker) -> None:
        """Let the other members ask this broker."""
        self._broker = broker

    async def close(self) -> None:
        """Disconnect, then stop the nats-server."""
        if self._watch is not None:
            await self._watch.stop()
        if self._channel is not None:
            await self._channel.close()
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)
        if self._server is not None:
            await self._server.stop()

    # --- the other members --------------------------------------------------------------------

    async def _announce(self, node: str, source: str, origin: str) -> None:
        assert self._channel is not None
        own = self._settings.cluster.node
        await self._channel.ask(node, "origin", _ANNOUNCE, source=source, origin=origin, by=own)

    async def _ask_nodes(self) -> list[Content]:
        """Return the state of each node; one that does not answer has the role `silent`."""
        found = await self._ask_all()
        missing = max(0, self._settings.cluster.size - len(found))
        silent: list[Content] = [{"node": "", "role": "silent"}] * missing
        return [*sorted(found, key=lambda each: str(each["node"])), *silent]

    def _handlers(self) -> dict[str, Callable[[Content], Content | None]]:
        return {
            "origin": self._note_origin,
            "status": self._show_status,
            "mark": self._show_mark,
            "step_down": self._step_down,
        }

    def _note_origin(self, content: Content) -> Content:
        ORIGINS.add(str(content["source"]), str(content["origin"]), str(content["by"]))
        return {}

    def _show_status(self, content: Content) -> Content | None:
        broker, own = self._broker, {"version": _VERSION}
        if broker is None:
            none = {"role": str(Role.NEITHER), "leader": "", "epoch": 0, "lag": 0, "last": 0}
            return none | own
        leader = broker.leader
        return own | {
            "role": str(broker.role),
            "leader": "" if leader is None else leader.node,
            "epoch": 0 if leader is None else leader.epoch,
            "lag": broker.lag,
            "last": self._read(0)[1],
        }

    def _show_mark(self, content: Content) -> Content:
        first, last, mark = self._read(int(content["seq"]))
        return {"first": first, "last": last, "mark": mark}

    def _read(self, seq: int) -> tuple[int, int, str]:
        """Return the first and last record of the copy, and the mark of a record in it."""
        try:
            reader = LedgerReader(self._settings.data / LEDGER_FILE)
        except (LedgerError, OSError):
            return 0, 0, ""
        try:
            is_there = reader.first_seq <= seq <= reader.last_seq
            return reader.first_seq, reader.last_seq, reader.mark(seq) if is_there else ""
        finally:
            reader.close()

    def _step_down(self, content: Content) -> Content:
        if self._broker is None or self._broker.role is not Role.LEADER:
            return {"done": False}
        self._broker.step_down()
        return {"done": True}


def split_secret(url: str) -> tuple[list[str], str, str]:
    """Return the servers of a NATS URL without secrets, the user and the password or token."""
    secret, _, hosts = url.partition("://")[2].rpartition("@")
    user, _, password = secret.partition(":")
    return [f"{url.partition('://')[0]}://{host}" for host in hosts.split(",")], user, password


def make_nats_server(settings: BrokerSettings) -> NatsServer:
    """Make the node's own nats-server; the routes use TLS if the broker has a certificate."""
    section, own = settings.cluster, settings.credentials
    tls = None
    if own.certificate is not None and own.key is not None and own.authority is not None:
        tls = RouteTls(own.certificate, own.key, own.authority)
    token = section.read_token(settings.data)
    member = NatsCluster(section.name, section.node, section.listen, section.join, token, tls)
    return NatsServer(settings.data / CLUSTER_FOLDER, cluster=member)


def load_modules(settings: BrokerSettings) -> None:
    """Import what the links need, which is otherwise imported when they open."""
    for dialect in DIALECTS.values():
        if any(getattr(settings.listen, each.name) != OFF for each in dialect.listeners):
            dialect.broker_sides(body_codecs(), new_id, dialect_settings(settings, dialect))
    if settings.listen.http != OFF:
        import_module("dragoman.web.http_transport")


def require_encryption(settings: BrokerSettings) -> None:
    """Raise ValueError if the ledger would cross a network unencrypted."""
    own = settings.credentials
    if settings.cluster.leaves_machine and own.certificate is None and not own.insecure:
        raise ValueError(
            "the ledger of the cluster would cross the network unencrypted; use the keys of one "
            "`dragoman init` on every node, or --insecure"
        )
