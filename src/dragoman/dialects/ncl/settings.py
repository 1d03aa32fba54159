"""Every interval and limit of both roles, with its default. All spans are in seconds.

The names of the document's Configuration section are in the comments where ours differ.
"""

from collections.abc import Mapping
from dataclasses import fields

from dragoman.model.value import value


@value
class OrchestratorSettings:
    """How the broker treats its compute nodes."""

    #: What it calls itself in the metadata of jobs.
    orchestrator: str = "dragoman"
    namespace: str = "default"
    #: How often nodes beat (HeartbeatInterval); only told to the core, nodes have their own.
    heartbeat_interval: float = 15.0
    #: A node silent for so long is disconnected: its state is unknown.
    disconnect_timeout: float = 60.0
    #: How long a disconnected node's work waits for it before it goes to others.
    grace: float = 180.0
    #: Ask for a bid and approve it. If not, work is sent as "run this", as for fan-out.
    bids: bool = True
    #: New nodes wait for approval; they connect and beat but get no work.
    manual_approval: bool = False
    #: How many jobs per core a node is given that announces no `dragoman.slots`.
    slots_per_core: float = 1.0
    #: Follow the logs of running executions and pass them on as progress.
    follow_logs: bool = True
    #: No ack within this is a failed delivery.
    ack_wait: float = 30.0
    #: How many messages to one node may be without an ack.
    max_pending: int = 1000
    #: Take an ack for all messages before it too, as the peers do. Can lose work with a connection.
    cumulative_acks: bool = False
    #: First wait after a failed delivery (BaseRetryInterval); doubles.
    retry_base: float = 5.0
    #: Longest wait after a failed delivery (MaxRetryInterval).
    retry_max: float = 300.0
    #: How often a node's progress is put on record when nothing else did (CheckpointInterval).
    checkpoint_interval: float = 30.0
    #: How long a returned node's executions may stay unclaimed by the core before they are stopped.
    reconcile_after: float = 5.0
    #: How many ended executions are remembered, to know a replay from news.
    remember: int = 100_000
    #: How long a disconnected node is remembered that has no work; a restart begins it anew.
    forget_after: float = 7 * 86_400.0
    #: Nodes known at a time. For one more, the one that was not heard for longest is forgotten.
    max_nodes: int = 10_000
    #: What NATS takes in one message, headers included.
    max_payload: int = 1024 * 1024


@value
class ComputeSettings:
    """How a worker behaves as a compute node."""

    heartbeat_interval: float = 15.0
    #: So many intervals without a good heartbeat end the session (HeartbeatMissFactor).
    heartbeat_miss_factor: int = 5
    #: How often the node's own description is compared with what was last accepted
    #: (NodeInfoUpdateInterval).
    info_update_interval: float = 60.0
    request_timeout: float = 10.0
    #: First wait after a failed handshake (ReconnectInterval); doubles.
    reconnect_interval: float = 10.0
    #: Longest wait between handshakes: two heartbeats, so that a node is back that soon.
    reconnect_max: float = 30.0
    ack_wait: float = 30.0
    max_pending: int = 1000
    #: First wait after a failed delivery (BaseRetryInterval); doubles.
    retry_base: float = 5.0
    #: Longest wait after a failed delivery (MaxRetryInterval).
    retry_max: float = 300.0
    #: How often the progress of both directions is stored (CheckpointInterval).
    checkpoint_interval: float = 30.0
    #: How often a log stream asks its consumer whether it is still there, and waits for the answer.
    log_beat_interval: float = 10.0
    log_beat_timeout: float = 5.0
    #: Lines kept per running execution for a consumer that comes later.
    log_lines: int = 1000
    #: How many ended executions are remembered, so that no replay runs one again.
    remember: int = 100_000
    #: How often the side's timers are looked at.
    tick: float = 1.0
    #: What NATS takes in one message, headers included.
    max_payload: int = 1024 * 1024


def read_settings(options: Mapping[str, str]) -> ComputeSettings:
    """Read a node's settings from the options of its URL. Raises ValueError in words."""
    known = {field.name: field.type for field in fields(ComputeSettings)}
    said: dict[str, float] = {}
    for name, text in options.items():
        if name not in known:
            raise ValueError(
                f"{name!r} is no option of an ncl worker; there are {', '.join(known)}"
            )
        try:
            said[name] = int(text) if known[name] is int else float(text)
        except ValueError:
            raise ValueError(f"{name}={text!r}: not a number") from None
        if said[name] <= 0:
            raise ValueError(f"{name}={text!r}: must be more than nothing")
    return ComputeSettings(**said)  # type: ignore[arg-type]
