"""The settings of a broker that is a node of a cluster; see `docs/cluster.md`."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from dragoman.server.settings_section import SettingsSection
from dragoman.transports.base import is_loopback
from dragoman.transports.nats_cluster import check_name, check_place, check_token

#: Hosts that mean every address of this machine. Nothing is bound here.
WILDCARDS = frozenset({"0.0.0.0", "*", "[::]", "::"})  # nosec B104
TOKEN_FILE = "cluster.token"
#: Most copies that a stream of JetStream can have.
MOST_REPLICAS = 5


class ClusterSection(SettingsSection):
    """A cluster of brokers with one replicated ledger; see `docs/cluster.md`."""

    name: str = Field(default="", description="The cluster's name; empty: this broker is alone.")
    node: str = Field(default="", description="The name of this node, unique in the cluster.")
    join: tuple[str, ...] = Field(
        default=(), description="The other nodes, as HOST:PORT of their `cluster.listen`."
    )
    listen: str = Field(
        default="127.0.0.1:6222", description="Where the other nodes connect, as HOST:PORT."
    )
    host: str = Field(
        default="",
        description="The host name or address at which the other nodes reach this one; by default "
        "that of `cluster.listen`, or the name of this machine.",
    )
    token: Path | None = Field(
        default=None,
        description="A file with the secret of the cluster, the same on every node; by default "
        "`cluster.token` in `data`. `dragoman cluster token` makes one.",
    )
    nats: str = Field(
        default="",
        description="The URL of NATS servers with JetStream that are not the broker's own, with "
        "user and password of an account that only the brokers use; empty: the node starts one.",
    )
    monitor: str = Field(
        default="",
        description="The monitoring URLs of the servers of `nats`, separated by commas, such as "
        "http://nats1:8222. There the broker reads whether they sync each write to disk.",
    )
    replicas: int = Field(
        default=0,
        ge=0,
        le=MOST_REPLICAS,
        description="Copies of the ledger's stream; 0: one on each node, or 3 with `nats`.",
    )

    @field_validator("join", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        return tuple(part for part in given.split(",") if part) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _is_whole(self) -> "ClusterSection":
        if not self.name:
            return self
        check_name(self.name)
        if not self.node:
            raise ValueError(f"cluster {self.name!r} needs the name of this node; use --node")
        check_name(self.node)
        for url in filter(None, self.monitor.split(",")):
            check_monitor(url.strip())
        if not self.nats:
            for place in (self.listen, *self.join):
                check_place(place)
        return self

    @property
    def own_host(self) -> str:
        """The host at which the other nodes reach this one."""
        listening = self.listen.rpartition(":")[0]
        return self.host or (socket.gethostname() if listening in WILDCARDS else listening)

    @property
    def copies(self) -> int:
        """Copies of the ledger's stream."""
        if self.replicas:
            return self.replicas
        return 3 if self.nats else min(len(self.join) + 1, MOST_REPLICAS)

    @property
    def size(self) -> int:
        """The number of nodes; with `nats` and without `join` it is not known, and 0."""
        return 0 if self.nats and not self.join else len(self.join) + 1

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of all nodes; empty if there is no cluster."""
        if not self.name:
            return ()
        joined = [place.rpartition(":")[0].strip("[]") for place in self.join]
        return (self.own_host, *joined)

    @property
    def leaves_machine(self) -> bool:
        """Whether the ledger crosses a network."""
        listening = self.listen.rpartition(":")[0]
        return not all(is_loopback(host.strip("[]")) for host in (listening, *self.hosts))

    def read_token(self, data: Path) -> str:
        """Read the secret of the cluster. Raises ValueError."""
        path = self.token or data / TOKEN_FILE
        try:
            return check_token(path.read_text().strip())
        except FileNotFoundError:
            raise ValueError(
                f"{path} is missing: it has the secret of cluster {self.name}, the same on every "
                "node; make it with `dragoman cluster token`"
            ) from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None


def check_monitor(url: str) -> None:
    """Raise ValueError if a text is no URL of a monitoring port."""
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise ValueError(f"{url!r} is no monitoring URL; use http://HOST:8222")
