"""Settings of both roles with their defaults. All times are in seconds.

Comments give the name in the document's Configuration section where it differs.
"""

from collections.abc import Mapping
from dataclasses import fields

from dragoman.model.value import value


@value
class OrchestratorSettings:
    """Settings of the orchestrator (the broker)."""

    #: Its id in the metadata of jobs.
    orchestrator: str = "dragoman"
    namespace: str = "default"
    #: Expected heartbeat interval of nodes (HeartbeatInterval), for the core's lease.
    heartbeat_interval: float = 15.0
    #: A node that is silent this long is disconnected: its state is unknown.
    disconnect_timeout: float = 60.0
    #: How long the work of a disconnected node waits before it goes to other nodes.
    grace: float = 180.0
    #: Ask for bids. If false, nodes run work without a bid, as they do for fan-out.
    bids: bool = True
    #: New nodes connect but get no work until an operator approves them.
    manual_approval: bool = False
    #: Jobs per core for a node that announces no `dragoman.slots`.
    slots_per_core: float = 1.0
    #: Follow the logs of running executions and pass them on as progress.
    follow_logs: bool = True
    #: Without an ack in this time, the delivery failed.
    ack_wait: float = 30.0
    #: Most unacked messages to one node.
    max_pending: int = 1000
    #: An ack counts for all earlier messages too, as upstream does. Can lose messages.
    cumulative_acks: bool = False
    #: First wait after a failed delivery (BaseRetryInterval); doubles.
    retry_base: float = 5.0
    #: Longest wait after a failed delivery (MaxRetryInterval).
    retry_max: float = 300.0
    #: How often a node's changed progress is recorded (CheckpointInterval).
    checkpoint_interval: float = 30.0
    #: Executions of a returned node that the core does not claim in this time are stopped.
    reconcile_after: float = 5.0
    #: Ended executions kept, to distinguish replays from new messages.
    remember: int = 100_000
    #: How long a disconnected node without work is kept. A restart resets this time.
    forget_after: float = 7 * 86_400.0
    #: Most known nodes. A new one replaces the disconnected node that was silent longest.
    max_nodes: int = 10_000
    #: Largest NATS message in bytes, headers included.
    max_payload: int = 1024 * 1024


@value
class ComputeSettings:
    """Settings of a compute node (a worker)."""

    heartbeat_interval: float = 15.0
    #: Intervals without a good heartbeat that end the session (HeartbeatMissFactor).
    heartbeat_miss_factor: int = 5
    #: How often changed node info is looked for and sent (NodeInfoUpdateInterval).
    info_update_interval: float = 60.0
    request_timeout: float = 10.0
    #: First wait after a failed handshake (ReconnectInterval); doubles.
    reconnect_interval: float = 10.0
    #: Longest wait between handshakes: two heartbeat intervals.
    reconnect_max: float = 30.0
    ack_wait: float = 30.0
    max_pending: int = 1000
    #: First wait after a failed delivery (BaseRetryInterval); doubles.
    retry_base: float = 5.0
    #: Longest wait after a failed delivery (MaxRetryInterval).
    retry_max: float = 300.0
    #: How often the positions of both directions are stored (CheckpointInterval).
    checkpoint_interval: float = 30.0
    #: Interval of log stream heartbeats, and the time limit of their answers.
    log_beat_interval: float = 10.0
    log_beat_timeout: float = 5.0
    #: Log lines kept per running execution, for late consumers.
    log_lines: int = 1000
    #: Ended executions kept, so that a replay does not run one again.
    remember: int = 100_000
    #: How often timers are checked.
    tick: float = 1.0
    #: Largest NATS message in bytes, headers included.
    max_payload: int = 1024 * 1024


def read_settings(options: Mapping[str, str]) -> ComputeSettings:
    """Read a node's settings from the options of its URL. Raises ValueError with the reason."""
    known = {field.name: field.type for field in fields(ComputeSettings)}
    values: dict[str, float] = {}
    for name, text in options.items():
        if name not in known:
            raise ValueError(
                f"unknown option {name!r} of an ncl worker; known options: {', '.join(known)}"
            )
        try:
            values[name] = int(text) if known[name] is int else float(text)
        except ValueError:
            raise ValueError(f"{name}={text!r}: not a number") from None
        if values[name] <= 0:
            raise ValueError(f"{name}={text!r}: must be greater than 0")
    return ComputeSettings(**values)  # type: ignore[arg-type]
