"""The orchestrator's control plane: handshakes, heartbeats, updates, farewells, and silence.

Each request is answered with one payload; what it means for the rest of the broker goes with it as
events. Subjects, envelopes and the data plane are not known here.
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
from dragoman.dialects.ncl.nodes import REJECTED, Node
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.wire import decode
from dragoman.model.capacity import Capacity
from dragoman.model.record import Kind

HANDSHAKE_REQUIRED: Final = "HandshakeRequired"
TIMED_OUT: Final = "heartbeat timeout"
GRACEFUL_SHUTDOWN: Final = "graceful shutdown"

Answer = tuple[WireObject, list[Event]]


class ControlPlane:
    """Answers the control requests of all nodes.

    `taken` tells what a node's live executions take of it, `is_free` whether it has none; `newest`
    is the highest position of the ledger that any node was sent.
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
        self._newest = newest
        #: Every node that joined and was not forgotten, connected or not.
        self.nodes: dict[str, Node] = {}
        self._handlers: dict[type[WireObject], Callable[..., Answer]] = {
            HandshakeRequest: self._handshake,
            HeartbeatRequest: self._heartbeat,
            UpdateNodeInfoRequest: self._update,
            ShutdownNoticeRequest: self._shutdown,
        }

    def answer(self, payload: WireObject, now: float) -> Answer:
        """Answer a request; the caller has made sure that it speaks for its sender."""
        handler = self._handlers.get(type(payload))
        if handler is None:
            return no_handler(payload), []
        return handler(payload, now)

    def _handshake(self, request: HandshakeRequest, now: float) -> Answer:
        info = request.NodeInfo
        node = self.nodes.get(info.NodeID)
        if node is not None and node.membership == REJECTED:
            return HandshakeResponse(False, "node has been rejected"), []
        if info.NodeType != "Compute":
            return HandshakeResponse(False, "node is not a compute node"), []
        is_new = node is None
        gone: list[Event] = []
        if node is None:
            node = Node(self._link, info, self._settings)
            if len(self.nodes) >= self._settings.max_nodes and not (gone := self._make_room()):
                words = f"{len(self.nodes)} nodes are here or have work, the most there may be"
                return HandshakeResponse(False, words), [_turned_away(node, words)]
            self.nodes[node.id] = node
        node.info = info
        node.available = info.ComputeNodeInfo.AvailableCapacity
        # A new node is not told of the past. A known one goes on where both agree it was; if it
        # has come less far than we know, it lost its state, and gets what it lost again.
        start = self._newest() if is_new else min(node.resume, request.LastOrchestratorSeqNum)
        node.connect(start, request.StartTime, now)
        reason = "node registered" if is_new else "node reconnected"
        response = HandshakeResponse(True, reason, node.compute_seq, start)
        return response, [*gone, node.joined(), node.noted(now)]

    def _make_room(self) -> list[Event]:
        """Forget the node that was not heard for longest, if there is one to forget."""
        gone = [node for node in self.nodes.values() if self.may_forget(node)]
        return self.forget(min(gone, key=lambda node: node.heard_at)) if gone else []

    def may_forget(self, node: Node) -> bool:
        """Tell whether nothing is lost with a node: a refusal by an operator would be."""
        return not node.is_connected and node.membership != REJECTED and self._is_free(node.id)

    def forget(self, node: Node) -> list[Event]:
        """Know a node no more, and say so on record; if it comes again, it is new."""
        del self.nodes[node.id]
        return [node.forgotten()]

    def _heartbeat(self, request: HeartbeatRequest, now: float) -> Answer:
        node = self._live(request.NodeID)
        if node is None:
            return handshake_required(request.NodeID), []
        node.heard_at = now
        node.available = request.AvailableCapacity
        # The number it reports is the last it has seen, not that it has seen all before: what has
        # no ack is sent again all the same.
        return HeartbeatResponse(node.compute_seq), [node.beat(self._taken(node.id))]

    def _update(self, request: UpdateNodeInfoRequest, now: float) -> Answer:
        node = self._live(request.NodeInfo.NodeID)
        if node is None:
            return handshake_required(request.NodeInfo.NodeID), []
        if request.NodeInfo.NodeType != "Compute":
            return UpdateNodeInfoResponse(False, "node is not a compute node"), []
        node.heard_at = now
        if node.info == request.NodeInfo:
            return UpdateNodeInfoResponse(True), []
        node.info = request.NodeInfo
        return UpdateNodeInfoResponse(True), [node.joined(), node.noted(now)]

    def _shutdown(self, request: ShutdownNoticeRequest, now: float) -> Answer:
        node = self._live(request.NodeID)
        if node is None:
            return handshake_required(request.NodeID), []
        node.disconnect(GRACEFUL_SHUTDOWN, now)
        return ShutdownNoticeResponse(node.compute_seq), [node.left(0.0), node.noted(now)]

    def _live(self, name: str) -> Node | None:
        node = self.nodes.get(name)
        return node if node is not None and node.is_connected else None

    def check(self, node: Node, now: float) -> list[Event]:
        """Disconnect a node that was silent for too long. Its work waits for the grace."""
        if not node.is_connected or now < node.heard_at + self._settings.disconnect_timeout:
            return []
        node.disconnect(TIMED_OUT, now)
        return [node.left(self._settings.grace), node.noted(now)]


def _turned_away(node: Node, words: str) -> Noted:
    return Noted(Kind.REJECTED, node.peer, words, dialect="ncl")


def node_of(payload: WireObject) -> str | None:
    """Return the node a control request speaks for; None when it is no control request."""
    if isinstance(payload, HandshakeRequest | UpdateNodeInfoRequest):
        return payload.NodeInfo.NodeID
    if isinstance(payload, HeartbeatRequest | ShutdownNoticeRequest):
        return payload.NodeID
    return None


def handshake_required(node: str) -> BacError:
    """Tell a node that it has no session here."""
    return BacError(
        Cause=f"node {node} not connected - handshake required",
        Retryable=True,
        Component="ConnectionManager",
        HTTPStatusCode=428,
        Code=HANDSHAKE_REQUIRED,
    )


def no_handler(payload: WireObject) -> BacError:
    """Tell a node that this message is known, but not as a request here."""
    cause = f"no handler found for message type: {NAMES[type(payload)]}"
    return BacError(Cause=cause, Component="Bacalhau", Code="NotFound")


def undecodable(reason: str) -> BacError:
    """Tell a node that its request could not be read."""
    return BacError(Cause=f"failed to deserialize request: {reason}", Component="Bacalhau")


def bad_request(cause: str, component: str) -> BacError:
    """Tell a node that what it asks for cannot be."""
    return BacError(Cause=cause, Component=component, HTTPStatusCode=400, Code="BadRequest")


def access_denied(data: bytes, reason: str) -> WireObject:
    """Tell a node that it may not be one: a handshake has its own form for that."""
    try:
        is_handshake = isinstance(decode(data).payload, HandshakeRequest)
    except MalformedMessage:
        is_handshake = False
    if is_handshake:
        return HandshakeResponse(False, reason)
    return BacError(
        Cause=reason, Component="ConnectionManager", HTTPStatusCode=403, Code="Forbidden"
    )


#: Status of an error reply whose payload has none, by code.
_INFERRED: Final = {"NotFound": 404}


def status_of(error: BacError) -> int:
    """Return the HTTP status that goes with an error, stated or inferred."""
    return error.HTTPStatusCode or _INFERRED.get(error.Code, 500)


def is_same_node(one: NodeInfo, other: NodeInfo) -> bool:
    """Compare two descriptions without what changes all the time: counts and free capacity."""
    return _essence(one) == _essence(other)


def _essence(info: NodeInfo) -> tuple[object, ...]:
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
