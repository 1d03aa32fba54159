"""Settings of both roles with their defaults. All times are in seconds.

Comments give the name in the document's Configuration section where it differs.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from dragoman.model.setting import setting
from dragoman.model.value import value

#: Bytes allowed for headers and metadata when a body is checked against `max_payload`.
OVERHEAD: Final = 4096


@value
class OrchestratorSettings:
    """Settings of the orchestrator (the broker)."""

    orchestrator: str = setting(
        default="dragoman", min_length=1, help="The broker's id in the metadata of jobs."
    )
    namespace: str = setting(default="default", min_length=1, help="The namespace of jobs.")
    heartbeat_interval: float = setting(
        default=15.0,
        gt=0,
        help="Expected seconds between two heartbeats of a node (HeartbeatInterval).",
    )
    heartbeat_miss_factor: int = setting(
        default=5,
        ge=1,
        help="Heartbeat intervals of silence after which a node is disconnected: its state is "
        "unknown (HeartbeatMissFactor).",
    )
    disconnect_timeout: float | None = setting(
        default=None,
        gt=0,
        help="The same in seconds, instead of the factor. Upstream's orchestrator uses 60.",
    )
    grace: float = setting(
        default=180.0,
        ge=0,
        help="Seconds that the work of a disconnected node waits before it goes to other nodes.",
    )
    bids: bool = setting(
        default=True,
        help="Whether to ask for bids. If not, nodes run work without a bid, as they do for fan- "
        "out.",
    )
    manual_approval: bool = setting(
        default=False, help="Whether new nodes get no work until an operator approves them."
    )
    slots_per_core: float = setting(
        default=1.0, gt=0, help="Jobs per core for a node that announces no `dragoman.slots`."
    )
    follow_logs: bool = setting(
        default=True,
        help="Whether to follow the logs of running executions and pass them on as progress.",
    )
    ack_wait: float = setting(
        default=30.0, gt=0, help="Seconds without an ack after which a delivery has failed."
    )
    max_pending: int = setting(default=1000, ge=1, help="Most unacked messages to one node.")
    cumulative_acks: bool = setting(
        default=False,
        help="Whether an ack counts for all earlier messages too, as upstream does. Can lose "
        "messages.",
    )
    retry_base: float = setting(
        default=5.0,
        gt=0,
        help="First wait after a failed delivery, in seconds (BaseRetryInterval); doubles.",
    )
    retry_max: float = setting(
        default=300.0,
        gt=0,
        help="Longest wait after a failed delivery, in seconds (MaxRetryInterval).",
    )
    checkpoint_interval: float = setting(
        default=30.0,
        gt=0,
        help="Seconds between two records of a node's changed progress (CheckpointInterval).",
    )
    reconcile_after: float = setting(
        default=5.0,
        gt=0,
        help="Seconds after which executions of a returned node are stopped that the core does not "
        "claim.",
    )
    remember: int = setting(
        default=100_000,
        ge=0,
        help="Ended executions kept, to distinguish replays from new messages.",
    )
    forget_after: float = setting(
        default=7 * 86_400.0,
        gt=0,
        help="Seconds that a disconnected node without work is kept. A restart resets this time.",
    )
    max_nodes: int = setting(
        default=10_000,
        ge=1,
        help="Most known nodes. A new one replaces the disconnected node that was silent longest.",
    )
    max_payload: int = setting(
        default=1024 * 1024, ge=1024, help="Largest NATS message in bytes, headers included."
    )

    @property
    def disconnect_after(self) -> float:
        """Seconds of silence after which a node is disconnected."""
        return self.disconnect_timeout or self.heartbeat_miss_factor * self.heartbeat_interval


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
    #: Ended executions whose log lines stay readable.
    log_executions: int = 100
    #: Accepted executions that may wait for a slot. A bid is refused only if the queue is full.
    queue_capacity: int = 1000
    #: Ended executions kept, so that a replay does not run one again.
    remember: int = 100_000
    #: How often timers are checked.
    tick: float = 1.0
    #: Largest NATS message in bytes, headers included.
    max_payload: int = 1024 * 1024


_MAY_BE_ZERO: Final = frozenset({"queue_capacity"})


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
        if values[name] < 0 or (values[name] == 0 and name not in _MAY_BE_ZERO):
            raise ValueError(f"{name}={text!r}: must be greater than 0")
    return ComputeSettings(**values)  # type: ignore[arg-type]
