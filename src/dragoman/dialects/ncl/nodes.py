"""What the orchestrator knows of each compute node, live and as it is put on record.

A node is connected, unknown (disconnected a while ago: its work waits for it) or lost (its work
has gone to others). Its record is upstream's stored node state, so it can be read by their tools.
"""

from typing import Any, Final

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

PROTOCOL: Final = "ncl/v1"
#: A node says with this label which services it offers beside its engines, comma-separated.
SERVICE_LABEL: Final = "dragoman.service"
#: A node says with this label how many jobs it takes at once.
SLOTS_LABEL: Final = "dragoman.slots"
#: What the detail of the record of a node's state begins with.
NODE_RECORD: Final = "ncl node "
#: What the detail of the record begins with that says a node is known no more.
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
        #: Highest of its own sequence numbers that was taken in.
        self.compute_seq = 0
        self.available = info.ComputeNodeInfo.AvailableCapacity
        #: Counts sessions, so that an ack of an old one is known as such.
        self.session = 0
        #: When its state was last put on record.
        self.recorded_at = 0.0
        #: Whether its work was given up after the grace.
        self.is_lost = False
        #: Whether the core has had its time to claim what the node held when its session began.
        self.is_reconciled = True
        #: What it had when its session began: all of ours up to here.
        self.had = 0
        #: When its process started, as it says; another instant means another process.
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
        """Name the peer that a node is."""
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
        """How many jobs it may hold. Without capacity, protocol or approval: none."""
        most = self.info.ComputeNodeInfo.MaxCapacity
        if self.membership != APPROVED or PROTOCOL not in (self.info.SupportedProtocols or ()):
            return 0
        said = (self.info.Labels or {}).get(SLOTS_LABEL, "")
        if said.isascii() and said.isdigit():
            return int(said[:6])
        if not (most.CPU or most.Memory or most.Disk or most.GPU):
            return 0
        return max(1, int(most.CPU * self.settings.slots_per_core))

    def joined(self) -> WorkerJoined:
        """Say to the core who it is.

        The core's own lease is longer than ours plus the grace: silence is judged here, where a
        node can be unknown before it is lost.
        """
        beat = self.settings.heartbeat_interval
        patience = self.settings.disconnect_timeout + self.settings.grace
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
            # Between two handshakes a node may wait for minutes, whoever was away.
            rejoins_within=self.settings.grace,
        )

    def beat(self, used: Capacity) -> BeatReceived:
        """Say to the core that it is alive, and what it has for us in all.

        That is what it has free and what our own work takes of it; never more than its most,
        because work that has not started yet is not taken from what is free.
        """
        most = capacity_of(self.info.ComputeNodeInfo.MaxCapacity)
        free = capacity_of(self.available).plus(used)
        return BeatReceived(
            self.peer,
            Capacity(
                min(most.cpu, free.cpu),
                min(most.memory, free.memory),
                min(most.disk, free.disk),
                min(most.gpu, free.gpu),
            ),
        )

    def connect(self, start: int, started: str, now: float) -> None:
        """Begin a session after a position of our sequence.

        A new process may have lost anything, whatever it says: the numbers of messages that reached
        it before its handshake did would make it look complete.
        """
        self.had = start if started == self.started else 0
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

    def left(self, grace: float) -> PeerLeft:
        """Say to the core that it is gone, for the reason of the last disconnection."""
        return PeerLeft(self.peer, self.last_error, grace)

    @property
    def resume(self) -> int:
        """How far it has surely come in our sequence: where its next session starts."""
        return self.publisher.settled

    @property
    def is_dirty(self) -> bool:
        """Whether its progress has changed since it was put on record."""
        return (self.resume, self.compute_seq) != self._recorded

    def noted(self, now: float) -> Noted:
        """Put its state on record."""
        self.recorded_at = now
        self._recorded = (self.resume, self.compute_seq)
        return Noted(
            Kind.CHANGED,
            self.peer,
            NODE_RECORD + self.id,
            Body("ncl", (dump(self.state()),)),
            dialect="ncl",
        )

    def forgotten(self) -> Noted:
        """Put on record that it is known no more."""
        return Noted(Kind.CHANGED, self.peer, FORGOTTEN_RECORD + self.id, dialect="ncl")

    def state(self) -> NodeState:
        """Return what is put on record."""
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

    def row(self, now: float) -> dict[str, Any]:
        """Say in plain values how it stands, for people who look."""
        standing = "connected" if self.is_connected else "lost" if self.is_lost else "unknown"
        most, compute = self.info.ComputeNodeInfo.MaxCapacity, self.info.ComputeNodeInfo
        return {
            "node": self.id,
            "membership": self.membership.lower(),
            "status": standing,
            "services": list(self.services),
            "slots": self.slots,
            "running": compute.RunningExecutions,
            "cpu": most.CPU,
            "memory": most.Memory,
            "gpu": most.GPU,
            "free_cpu": self.available.CPU,
            "free_memory": self.available.Memory,
            "labels": dict(self.info.Labels or {}),
            "silent_for": round(max(0.0, now - self.heard_at), 3) if self.heard_at else None,
            "last_error": self.last_error,
        }

    def restore(self, state: NodeState, now: float) -> None:
        """Take over a recorded state. Whatever it was, the node is not connected to us now."""
        self.disconnected_at = now
        self.info = state.Info
        self.membership = state.Membership or self.membership
        self.compute_seq = state.ConnectionState.LastComputeSeqNum
        self.heard_at = time_of(state.ConnectionState.LastHeartbeat)
        self.publisher.last = max(self.publisher.last, state.ConnectionState.LastOrchestratorSeqNum)
        self._recorded = (self.resume, self.compute_seq)


def capacity_of(found: Resources) -> Capacity:
    """Read resources as the model's capacity. Slots are the business of credit."""
    return Capacity(float(found.CPU), found.Memory, found.Disk, found.GPU)
