"""The orchestrator's view of a compute node, live and as recorded.

A node is connected, unknown (disconnected, its work waits for it) or lost (its work has gone to
other nodes). The record has the format of upstream's stored node state, so that upstream's tools
can read it.
"""

from typing import Final

from dragoman.core.events import BeatReceived, Noted, PeerLeft, WorkerJoined
from dragoman.dialects.ncl.dataplane import Publisher
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.models import (
    ConnectionRecord,
    NodeInfo,
    NodeState,
    Resources,
)
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.times import time_of, time_text
from dragoman.model.body import Body
from dragoman.model.capacity import Capacity
from dragoman.model.names import PeerId, ServiceName, WorkerName, peer_id
from dragoman.model.record import Kind

APPROVED: Final = "APPROVED"
PENDING: Final = "PENDING"
REJECTED: Final = "REJECTED"
CONNECTED: Final = "CONNECTED"
DISCONNECTED: Final = "DISCONNECTED"

#: Reason of a disconnection: the node sent a shutdown notice.
GRACEFUL_SHUTDOWN: Final = "graceful shutdown"

PROTOCOL: Final = "ncl/v1"
#: Label of the services that a node offers besides its engines, comma-separated.
SERVICE_LABEL: Final = "dragoman.service"
#: Label of how many jobs a node takes at once.
SLOTS_LABEL: Final = "dragoman.slots"
#: Label of a Dragoman worker's own version.
VERSION_LABEL: Final = "dragoman.version"
#: Prefix of the detail in the record of a node's state.
NODE_RECORD: Final = "ncl node "
#: Prefix of the detail in the record that a node is forgotten.
FORGOTTEN_RECORD: Final = "forgotten ncl node "


class Node:
    """One compute node."""

    def __init__(self, link: str, info: NodeInfo, settings: OrchestratorSettings) -> None:
        self.id = info.NodeID
        self.peer = Node.name_peer(link, self.id)
        self.info = info
        self.settings = settings
        self.membership = PENDING if settings.manual_approval else APPROVED
        self.is_connected = False
        self.heard_at = 0.0
        self.connected_at = 0.0
        self.disconnected_at = 0.0
        self.last_error = ""
        #: The last sequence number received from it.
        self.compute_seq = 0
        self.available = info.ComputeNodeInfo.AvailableCapacity
        #: Number of its session. An ack of an earlier session is ignored.
        self.session = 0
        #: When its state was last recorded.
        self.recorded_at = 0.0
        #: Whether its work went to other nodes after `grace`.
        self.is_lost = False
        #: Whether the core's time to claim its executions of earlier sessions is over.
        self.is_reconciled = True
        #: Our sequence up to which it had every message when its session began.
        self.session_start = 0
        #: Start time of its process, as reported. Another value means another process.
        self.started = ""
        self._recorded = (0, 0)
        self.publisher = Publisher(
            settings.ack_wait,
            settings.max_pending,
            settings.retry_base,
            settings.retry_max,
            settings.cumulative_acks,
        )

    @staticmethod
    def name_peer(link: str, name: str) -> PeerId:
        """Return the peer id of a node."""
        return peer_id(link, name)

    @property
    def services(self) -> tuple[ServiceName, ...]:
        """Its engines in lower case, and the services of its label."""
        named = (self.info.Labels or {}).get(SERVICE_LABEL, "").split(",")
        engines = [e.lower() for e in self.info.ComputeNodeInfo.ExecutionEngines or ()]
        found = dict.fromkeys([*engines, *(name.strip() for name in named)])
        return tuple(ServiceName(name) for name in found if name)

    @property
    def slots(self) -> int:
        """How many jobs it may hold: 0 without capacity, protocol or approval."""
        maximum = self.info.ComputeNodeInfo.MaxCapacity
        if self.membership != APPROVED or PROTOCOL not in (self.info.SupportedProtocols or ()):
            return 0
        label = (self.info.Labels or {}).get(SLOTS_LABEL, "")
        if label.isascii() and label.isdigit():
            return int(label[:6])
        if not (maximum.CPU or maximum.Memory or maximum.Disk or maximum.GPU):
            return 0
        return max(1, int(maximum.CPU * self.settings.slots_per_core))

    def joined_event(self) -> WorkerJoined:
        """Return the event that registers it with the core.

        The core's lease is longer than `disconnect_after` and `grace` together. This side judges
        silence itself, because here a node is unknown before it is lost.
        """
        beat = self.settings.heartbeat_interval
        patience = self.settings.disconnect_after + self.settings.grace
        return WorkerJoined(
            self.peer,
            WorkerName(self.id),
            self.services,
            credit=self.slots,
            credit_returns=True,
            beat_every=beat,
            missed_allowed=int(patience / beat) + 2,
            labels=dict(self.info.Labels or {}),
            capacity=capacity_of(self.info.ComputeNodeInfo.MaxCapacity),
            dialect="ncl",
            # A node may wait minutes between two handshakes.
            rejoins_within=self.settings.grace,
        )

    def beat_event(self, used: Capacity) -> BeatReceived:
        """Return the event that renews its lease and reports its capacity.

        The capacity is what it has free plus what our own work uses, at most its maximum: work
        that has not started yet still counts as free.
        """
        maximum = capacity_of(self.info.ComputeNodeInfo.MaxCapacity)
        free = capacity_of(self.available).plus(used)
        return BeatReceived(
            self.peer,
            Capacity(
                min(maximum.cpu, free.cpu),
                min(maximum.memory, free.memory),
                min(maximum.disk, free.disk),
                min(maximum.gpu, free.gpu),
            ),
        )

    def connect(self, start: int, started: str, now: float) -> None:
        """Begin a session after position `start` of our sequence.

        A new process may have lost any message, whatever position it reports: messages that
        reached it before its handshake raise that position.
        """
        self.session_start = start if started == self.started else 0
        self.started = started
        self.is_connected, self.is_lost, self.is_reconciled = True, False, False
        self.heard_at = self.connected_at = now
        self.disconnected_at, self.last_error = 0.0, ""
        self.session += 1
        self.publisher.open(start)

    def disconnect(self, reason: str, now: float) -> None:
        """End the session."""
        self.is_connected = False
        self.disconnected_at, self.last_error = now, reason
        self.publisher.close()

    def left_event(self, grace: float) -> PeerLeft:
        """Return the event that it left, with the reason of the last disconnection."""
        return PeerLeft(self.peer, self.last_error, grace)

    @property
    def resume(self) -> int:
        """The position where its next session starts: everything up to it is acked."""
        return self.publisher.settled

    @property
    def is_dirty(self) -> bool:
        """Whether its progress has changed since it was last recorded."""
        return (self.resume, self.compute_seq) != self._recorded

    def state_note(self, now: float) -> Noted:
        """Return the event that records its state."""
        self.recorded_at = now
        self._recorded = (self.resume, self.compute_seq)
        return Noted(
            Kind.CHANGED,
            self.peer,
            NODE_RECORD + self.id,
            Body("ncl", (dump(self.state()),)),
            dialect="ncl",
        )

    def forgotten_note(self) -> Noted:
        """Return the event that records that it is forgotten."""
        return Noted(Kind.CHANGED, self.peer, FORGOTTEN_RECORD + self.id, dialect="ncl")

    def state(self) -> NodeState:
        """Return its state in upstream's stored form."""
        status = CONNECTED if self.is_connected else DISCONNECTED
        return NodeState(
            self.info,
            self.membership,
            status,
            ConnectionRecord(
                status,
                time_text(self.heard_at),
                self.compute_seq,
                self.resume,
                time_text(self.connected_at),
                time_text(self.disconnected_at),
                self.last_error,
            ),
        )

    @property
    def status(self) -> str:
        """Its status in listings: rejected, connected, gone, lost or unknown."""
        if self.membership == REJECTED:
            return "rejected"
        if self.is_connected:
            return "connected"
        if self.last_error == GRACEFUL_SHUTDOWN:
            return "gone"
        return "lost" if self.is_lost else "unknown"

    def row(self, now: float) -> dict[str, object]:
        """Return its status as plain values, for listings."""
        maximum, compute = self.info.ComputeNodeInfo.MaxCapacity, self.info.ComputeNodeInfo
        return {
            "node": self.id,
            "membership": self.membership.lower(),
            "status": self.status,
            "services": list(self.services),
            "slots": self.slots,
            "running": compute.RunningExecutions,
            "cpu": maximum.CPU,
            "memory": maximum.Memory,
            "gpu": maximum.GPU,
            "free_cpu": self.available.CPU,
            "free_memory": self.available.Memory,
            "labels": dict(self.info.Labels or {}),
            "silent_for": round(max(0.0, now - self.heard_at), 3) if self.heard_at else None,
            "last_error": self.last_error,
        }

    def restore(self, state: NodeState, now: float) -> None:
        """Restore a recorded state. The node starts disconnected, whatever was recorded."""
        self.disconnected_at, self.last_error = now, state.ConnectionState.LastError
        self.info = state.Info
        self.membership = state.Membership or self.membership
        self.compute_seq = state.ConnectionState.LastComputeSeqNum
        self.heard_at = time_of(state.ConnectionState.LastHeartbeat)
        self.publisher.last = max(self.publisher.last, state.ConnectionState.LastOrchestratorSeqNum)
        self._recorded = (self.resume, self.compute_seq)


def capacity_of(found: Resources) -> Capacity:
    """Read resources as a capacity. Slots are not included: they are credit."""
    return Capacity(float(found.CPU), found.Memory, found.Disk, found.GPU)
