"""What a node of a cluster is made of, as the server is told: stream, lease, pass-through."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Protocol

from dragoman.core.view import ClusterState
from dragoman.ledger.stream import Stream
from dragoman.model.value import value
from dragoman.server.lease import TTL, LeaseBucket, LeaseHolder


class Role(StrEnum):
    """What a broker is at the moment."""

    STANDALONE = "standalone"  #: there is no cluster
    LEADER = "leader"
    STANDBY = "standby"
    NEITHER = "neither"  #: it starts, stops or changes over


class PassThrough(Protocol):
    """Listens while this node is a standby, and passes connections to the leader."""

    async def open(self, holder: Callable[[], LeaseHolder | None]) -> None:
        """Listen; `holder` returns the newest known leader, and does not wait."""
        ...

    async def close(self) -> None:
        """Close, so that the broker can listen at the same addresses."""
        ...


@value
class ClusterNode:
    """One node: its name, and what it shares with the others."""

    node: str
    stream: Stream
    bucket: LeaseBucket
    ttl: float = TTL
    pass_through: PassThrough | None = None
    #: Turns bound endpoints into addresses that other nodes can reach.
    advertise: Callable[[dict[str, str]], dict[str, str]] = dict
    #: Seconds that a node without records waits before it leads a new cluster.
    settle: float = 0.0
    #: Returns what is known of all nodes.
    watched: Callable[[], ClusterState] = ClusterState
    #: Asks every node for its state.
    ask_nodes: Callable[[], Awaitable[list[dict[str, Any]]]] | None = None
