"""The orchestrator's control plane: handshakes, heartbeats, updates, shutdown notices, timeouts.

Each request gets one answer payload and the events it causes in the broker. Subjects, envelopes and
the data plane are not known here.
"""

from collections.abc import Callable
from typing import Final

from dragoman.core.events import Event, Noted
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.messages import (
    NAMES,
    BacError,
    HandshakeRequest,
    HandshakeResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ShutdownNoticeRequest,
    ShutdownNoticeResponse,
    UpdateNodeInfoRequest,
    UpdateNodeInfoResponse,
)
from dragoman.dialects.ncl.models import NodeInfo, WireObject
from dragoman.dialects.ncl.nodes import GRACEFUL_SHUTDOWN, REJECTED, Node
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.wire import decode
from dragoman.model.capacity import Capacity
from dragoman.model.record import Kind

HANDSHAKE_REQUIRED: Final = "HandshakeRequired"
TIMED_OUT: Final = "heartbeat timeout"

ControlAnswer = tuple[WireObject, list[Event]]


class ControlPlane:
    """Answers the control requests of all nodes.

    `taken` returns the capacity that a node's live executions use. `is_free` tells whether it has
    none. `newest` returns the highest ledger position that was sent to any node.
    """

    def __init__(
        self,
        link: str,
        settings: OrchestratorSettings,
        taken: Callable[[str], Capacity],
        is_free: Callable[[str], bool],
        newest: Callable[[], int],
    ) -> None:
        self._link = link
        self._settings = settings
        self._taken = taken
        self._is_free = is_free
        self._newest_seq = newest
        #: Every node that is not forgotten, connected or not.
        self.nodes: dict[str, Node] = {}
        self._handlers: dict[type[WireObject], Callable[..., ControlAnswer]] = {
            HandshakeRequest: self._handshake,
            HeartbeatRequest: self._heartbeat,
            UpdateNodeInfoRequest: self._update,
            ShutdownNoticeRequest: self._shutdown,
        }

    def answer(self, payload: WireObject, now: float) -> ControlAnswer:
        """Answer a request. The caller has checked that its node id matches its subject."""
        handler = self._handlers.get(type(payload))
        if handler is None:
            return no_handler(payload), []
        return handler(payload, now)

    def _handshake(self, request: HandshakeRequest, now: float) -> ControlAnswer:
        info = request.NodeInfo
        node = self.nodes.get(info.NodeID)
        if node is not None and node.membership == REJECTED:
            return HandshakeResponse(False, "node has been rejected"), []
        if info.NodeType != "Compute":
            return HandshakeResponse(False, "node is not a compute node"), []
        is_new = node is None
        forgotten: list[Event] = []
        if node is None:
            node = Node(self._link, info, self._settings)
            if len(self.nodes) >= self._settings.max_nodes and not (forgotten := self._make_room()):
                reason = f"max_nodes: all {len(self.nodes)} known nodes are connected or have work"
                return HandshakeResponse(False, reason), [_rejected_note(node, reason)]
            self.nodes[node.id] = node
        node.info = info
        node.available = info.ComputeNodeInfo.AvailableCapacity
        # A new node gets no old messages. A known one resumes at the lower of both positions: if
        # its own is lower, it lost its state and needs the messages again.
        start = self._newest_seq() if is_new else min(node.resume, request.LastOrchestratorSeqNum)
        node.connect(start, request.StartTime, now)
        reason = "node registered" if is_new else "node reconnected"
        response = HandshakeResponse(True, reason, node.compute_seq, start)
        return response, [*forgotten, node.joined_event(), node.state_note(now)]

    def _make_room(self) -> list[Event]:
        """Forget the node that has been silent longest, if one may be forgotten."""
        forgotten = [node for node in self.nodes.values() if self.may_forget(node)]
        return self.forget(min(forgotten, key=lambda node: node.heard_at)) if forgotten else []

    def may_forget(self, node: Node) -> bool:
        """Tell whether a node can be forgotten. A rejected one cannot: its rejection must hold."""
        return not node.is_connected and node.membership != REJECTED and self._is_free(node.id)

    def forget(self, node: Node) -> list[Event]:
        """Forget a node and record that. If it returns, it is new."""
        del self.nodes[node.id]
        return [node.forgotten_note()]

    def _heartbeat(self, request: HeartbeatRequest, now: float) -> ControlAnswer:
        node = self._connected(request.NodeID)
        if node is None:
            return handshake_required(request.NodeID), []
        node.heard_at = now
        node.available = request.AvailableCapacity
        # The reported number is the last one seen; earlier ones may be missing. Every unacked
        # message is therefore sent again.
        return HeartbeatResponse(node.compute_seq), [node.beat_event(self._taken(node.id))]

    def _update(self, request: UpdateNodeInfoRequest, now: float) -> ControlAnswer:
        node = self._connected(request.NodeInfo.NodeID)
        if node is None:
            return handshake_required(request.NodeInfo.NodeID), []
        if request.NodeInfo.NodeType != "Compute":
            return UpdateNodeInfoResponse(False, "node is not a compute node"), []
        node.heard_at = now
        if node.info == request.NodeInfo:
            return UpdateNodeInfoResponse(True), []
        node.info = request.NodeInfo
        return UpdateNodeInfoResponse(True), [node.joined_event(), node.state_note(now)]

    def _shutdown(self, request: ShutdownNoticeRequest, now: float) -> ControlAnswer:
        node = self._connected(request.NodeID)
        if node is None:
            return handshake_required(request.NodeID), []
        node.disconnect(GRACEFUL_SHUTDOWN, now)
        return ShutdownNoticeResponse(node.compute_seq), [
            node.left_event(0.0),
            node.state_note(now),
        ]

    def _connected(self, name: str) -> Node | None:
        node = self.nodes.get(name)
        return node if node is not None and node.is_connected else None

    def check(self, node: Node, now: float) -> list[Event]:
        """Disconnect a node after `disconnect_after` seconds. Its work waits for `grace`."""
        if not node.is_connected or now < node.heard_at + self._settings.disconnect_after:
            return []
        node.disconnect(TIMED_OUT, now)
        return [node.left_event(self._settings.grace), node.state_note(now)]


def _rejected_note(node: Node, reason: str) -> Noted:
    return Noted(Kind.REJECTED, node.peer, reason, dialect="ncl")


def node_of(payload: WireObject) -> str | None:
    """Return the node id in a control request; None for any other payload."""
    if isinstance(payload, HandshakeRequest | UpdateNodeInfoRequest):
        return payload.NodeInfo.NodeID
    if isinstance(payload, HeartbeatRequest | ShutdownNoticeRequest):
        return payload.NodeID
    return None


def handshake_required(node: str) -> BacError:
    """Return the error for a node without a session."""
    return BacError(
        Cause=f"node {node} not connected - handshake required",
        Retryable=True,
        Component="ConnectionManager",
        HTTPStatusCode=428,
        Code=HANDSHAKE_REQUIRED,
    )


def no_handler(payload: WireObject) -> BacError:
    """Return the error for a known message type that is not a control request."""
    cause = f"no handler found for message type: {NAMES[type(payload)]}"
    return BacError(Cause=cause, Component="Bacalhau", Code="NotFound")


def undecodable(reason: str) -> BacError:
    """Return the error for a request that cannot be decoded."""
    return BacError(Cause=f"failed to deserialize request: {reason}", Component="Bacalhau")


def bad_request(cause: str, component: str) -> BacError:
    """Return the error for a request that is invalid or unsupported."""
    return BacError(Cause=cause, Component=component, HTTPStatusCode=400, Code="BadRequest")


def access_denied(data: bytes, reason: str) -> WireObject:
    """Return the refusal for a denied node. A handshake has its own response for that."""
    try:
        is_handshake = isinstance(decode(data).payload, HandshakeRequest)
    except MalformedMessage:
        is_handshake = False
    if is_handshake:
        return HandshakeResponse(False, reason)
    return BacError(
        Cause=reason, Component="ConnectionManager", HTTPStatusCode=403, Code="Forbidden"
    )


#: HTTP status by error code, for errors whose payload has none.
_INFERRED: Final = {"NotFound": 404}


def status_of(error: BacError) -> int:
    """Return the HTTP status of an error, stated or inferred."""
    return error.HTTPStatusCode or _INFERRED.get(error.Code, 500)


def is_same_node(one: NodeInfo, other: NodeInfo) -> bool:
    """Compare two descriptions, ignoring counts and free capacity, which change constantly."""
    return _stable_fields(one) == _stable_fields(other)


def _stable_fields(info: NodeInfo) -> tuple[object, ...]:
    compute = info.ComputeNodeInfo
    return (
        info.NodeID,
        info.NodeType,
        info.Labels or {},
        sorted(info.SupportedProtocols or ()),
        sorted(compute.ExecutionEngines or ()),
        sorted(compute.Publishers or ()),
        sorted(compute.StorageSources or ()),
        compute.MaxCapacity,
        compute.MaxJobRequirements,
        compute.address,
        info.BacalhauVersion,
    )
