"""The orchestrator's control plane: each request, its answer, its events."""

from typing import Any

import pytest
from tests.dialects.ncl_vectors import body

from dragoman.core.events import BeatReceived, Noted, PeerLeft, WorkerJoined
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.control import (
    ControlPlane,
    bad_request,
    handshake_required,
    is_same_node,
    no_handler,
    node_of,
    status_of,
    undecodable,
)
from dragoman.dialects.ncl.messages import (
    BacError,
    BidResult,
    CancelExecution,
    HandshakeRequest,
    HandshakeResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ShutdownNoticeRequest,
    ShutdownNoticeResponse,
    UpdateNodeInfoRequest,
    UpdateNodeInfoResponse,
)
from dragoman.dialects.ncl.models import ComputeInfo, NodeInfo, Resources
from dragoman.dialects.ncl.nodes import REJECTED
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.capacity import NOTHING
from dragoman.model.record import Kind

NOW = 1_700_000_000.0


def info(**more: Any) -> NodeInfo:
    compute = ComputeInfo(ExecutionEngines=["noop"], MaxCapacity=Resources(CPU=4))
    said = {"NodeID": "n-1", "NodeType": "Compute", "SupportedProtocols": ["ncl/v1"], **more}
    return NodeInfo(ComputeNodeInfo=compute, **said)


def control(*busy: str, **settings: Any) -> ControlPlane:
    made = OrchestratorSettings(**settings)
    return ControlPlane(
        "ncl", made, lambda name: NOTHING, lambda name: name not in busy, lambda: 1203
    )


@pytest.fixture
def plane() -> ControlPlane:
    return control()


def shake(plane: ControlPlane, last: int = 0, **more: Any) -> HandshakeResponse:
    answer, _ = plane.answer(HandshakeRequest(info(**more), LastOrchestratorSeqNum=last), NOW)
    assert isinstance(answer, HandshakeResponse)
    return answer


def test_a_new_node_begins_at_the_newest_sequence(plane: ControlPlane) -> None:
    answer, events = plane.answer(HandshakeRequest(info()), NOW)
    assert answer == wire.decode(body("ctrl.handshake.response.new")).payload
    assert [type(e) for e in events] == [WorkerJoined, Noted]


def test_a_known_node_goes_on_where_both_agree_it_was(plane: ControlPlane) -> None:
    shake(plane)
    node = plane.nodes["n-1"]
    node.publisher.last = 1250
    node.publisher.put(1300, CancelExecution(None, "e"))
    node.compute_seq = 17
    assert shake(plane, last=1300) == HandshakeResponse(True, "node reconnected", 17, 1299)
    assert shake(plane, last=1250) == HandshakeResponse(True, "node reconnected", 17, 1250)


def test_a_node_that_lost_its_state_gets_what_it_lost_again(plane: ControlPlane) -> None:
    shake(plane)
    node = plane.nodes["n-1"]
    node.publisher.last = 1300
    assert shake(plane, last=0).LastOrchestratorSeqNum == 0
    assert node.session_start == 0


def test_a_new_process_may_have_lost_anything_whatever_it_says(plane: ControlPlane) -> None:
    shake(plane)
    node = plane.nodes["n-1"]
    node.publisher.last = 1300
    request = HandshakeRequest(info(), "2026-01-02T03:04:05Z", 1300)
    plane.answer(request, NOW)
    assert node.session_start == 0
    plane.answer(request, NOW)
    assert node.session_start == 1300


def test_a_handshake_while_connected_is_a_reconnection(plane: ControlPlane) -> None:
    shake(plane)
    assert shake(plane).reason == "node reconnected"
    assert plane.nodes["n-1"].session == 2


def test_only_compute_nodes_may_come(plane: ControlPlane) -> None:
    for kind in ("Requester", ""):
        answer = shake(plane, NodeType=kind)
        assert answer == wire.decode(body("ctrl.handshake.response.notcompute")).payload
    assert plane.nodes == {}


def test_a_rejected_node_is_refused(plane: ControlPlane) -> None:
    shake(plane)
    plane.nodes["n-1"].membership = REJECTED
    assert shake(plane) == HandshakeResponse(False, "node has been rejected")


def test_a_heartbeat_is_life_capacity_and_progress(plane: ControlPlane) -> None:
    shake(plane)
    node = plane.nodes["n-1"]
    node.compute_seq = 19
    request = HeartbeatRequest("n-1", Resources(CPU=1), Resources(), 1211)
    answer, events = plane.answer(request, NOW + 15)
    assert answer == HeartbeatResponse(19)
    assert [type(e) for e in events] == [BeatReceived]
    assert (node.heard_at, node.available.CPU) == (NOW + 15, 1)


def test_the_number_of_a_heartbeat_is_no_ack(plane: ControlPlane) -> None:
    shake(plane)
    node = plane.nodes["n-1"]
    node.publisher.put(1300, CancelExecution(None, "e"))
    for number in (1300, 2**64 - 1):
        plane.answer(HeartbeatRequest("n-1", LastOrchestratorSeqNum=number), NOW)
    assert node.resume == 1299


@pytest.mark.parametrize(
    "request_",
    [
        HeartbeatRequest("n-1"),
        UpdateNodeInfoRequest(NodeInfo("n-1", "Compute")),
        ShutdownNoticeRequest("n-1"),
    ],
)
def test_without_a_session_everything_needs_a_handshake(plane: ControlPlane, request_: Any) -> None:
    answer, events = plane.answer(request_, NOW)
    assert isinstance(answer, BacError)
    assert (answer.Code, status_of(answer)) == ("HandshakeRequired", 428)
    assert events == []


def test_the_error_is_upstream_s(plane: ControlPlane) -> None:
    real = wire.decode(body("ctrl.error.handshakerequired")).payload
    assert handshake_required("n-7b1c7d2e-0f5c-4a52-9a3e-2f6d0c8e4b11") == real
    assert no_handler(BidResult()) == wire.decode(body("ctrl.error.nohandler")).payload
    words = "failed to deserialize message payload: unsupported message type: Nope"
    assert undecodable(words) == wire.decode(body("ctrl.error.undecodable")).payload


@pytest.mark.parametrize(
    "label", ["ctrl.error.handshakerequired", "ctrl.error.nohandler", "ctrl.error.undecodable"]
)
def test_the_status_is_stated_or_inferred(label: str) -> None:
    message = wire.decode(body(label))
    assert isinstance(message.payload, BacError)
    assert str(status_of(message.payload)) == message.metadata[wire.STATUS_CODE]


def test_a_known_type_without_a_handler_is_not_found(plane: ControlPlane) -> None:
    answer, _ = plane.answer(BidResult(), NOW)
    assert isinstance(answer, BacError)
    assert answer.Code == "NotFound"


def test_a_real_change_is_accepted_and_reported(plane: ControlPlane) -> None:
    shake(plane)
    changed = info(Labels={"zone": "eu"})
    answer, events = plane.answer(UpdateNodeInfoRequest(changed), NOW)
    assert answer == UpdateNodeInfoResponse(True)
    assert isinstance(events[0], WorkerJoined)
    assert events[0].labels == {"zone": "eu"}
    answer, events = plane.answer(UpdateNodeInfoRequest(changed), NOW)
    assert (answer, events) == (UpdateNodeInfoResponse(True), [])


def test_an_update_cannot_make_a_node_something_else(plane: ControlPlane) -> None:
    shake(plane)
    answer, events = plane.answer(UpdateNodeInfoRequest(info(NodeType="Requester")), NOW)
    assert isinstance(answer, UpdateNodeInfoResponse)
    assert (answer.accepted, events) == (False, [])


def test_a_goodbye_ends_the_session_at_once(plane: ControlPlane) -> None:
    shake(plane)
    answer, events = plane.answer(ShutdownNoticeRequest("n-1", "", 1211), NOW)
    assert isinstance(answer, ShutdownNoticeResponse)
    assert events[0] == PeerLeft(plane.nodes["n-1"].peer, "graceful shutdown", 0.0)
    assert not plane.nodes["n-1"].is_connected


def test_silence_makes_a_node_unknown_with_a_grace(plane: ControlPlane) -> None:
    shake(plane)
    node = plane.nodes["n-1"]
    assert plane.check(node, NOW + 74.9) == []
    events = plane.check(node, NOW + 75)
    assert events[0] == PeerLeft(node.peer, "heartbeat timeout", 180.0)
    assert plane.check(node, NOW + 76) == []


def test_for_a_node_too_many_the_one_is_forgotten_that_was_not_heard_for_longest() -> None:
    plane = control("busy", max_nodes=4)
    for at, name in enumerate(("busy", "old", "older", "here")):
        shake(plane, NodeID=name)
        plane.nodes[name].heard_at = NOW + at
    plane.nodes["older"].heard_at = NOW - 9
    for name in ("busy", "old", "older"):
        plane.nodes[name].disconnect("heartbeat timeout", NOW)
    answer, events = plane.answer(HandshakeRequest(info(NodeID="new")), NOW)
    assert isinstance(answer, HandshakeResponse)
    assert answer.accepted
    assert list(plane.nodes) == ["busy", "old", "here", "new"]
    assert isinstance(events[0], Noted)
    assert events[0].detail == "forgotten ncl node older"


def test_where_no_node_can_be_forgotten_a_new_one_is_refused_on_record() -> None:
    plane = control("busy", max_nodes=3)
    for name in ("here", "busy", "rejected"):
        shake(plane, NodeID=name)
    for name in ("busy", "rejected"):
        plane.nodes[name].disconnect("", NOW)
    plane.nodes["rejected"].membership = REJECTED
    answer, (noted,) = plane.answer(HandshakeRequest(info(NodeID="new")), NOW)
    assert answer == HandshakeResponse(
        False, "max_nodes: all 3 known nodes are connected or have work"
    )
    assert isinstance(noted, Noted)
    assert (noted.kind, noted.peer) == (Kind.REJECTED, "ncl/new")
    assert "new" not in plane.nodes
    assert shake(plane, NodeID="here").accepted


def test_each_request_speaks_for_one_node() -> None:
    assert node_of(HandshakeRequest(info())) == "n-1"
    assert node_of(HeartbeatRequest("x")) == "x"
    assert node_of(BidResult()) is None


def test_a_bad_request_is_400() -> None:
    assert status_of(bad_request("no", "X")) == 400


def test_what_changes_all_the_time_makes_no_other_node() -> None:
    one, other = info(), info()
    other.ComputeNodeInfo.RunningExecutions = 5
    other.ComputeNodeInfo.AvailableCapacity = Resources(CPU=1)
    other.ComputeNodeInfo.QueueCapacity = Resources(CPU=1)
    assert is_same_node(one, other)


def test_order_makes_no_other_node_but_labels_and_capacity_do() -> None:
    one, other = info(), info()
    one.ComputeNodeInfo.ExecutionEngines = ["a", "b"]
    other.ComputeNodeInfo.ExecutionEngines = ["b", "a"]
    assert is_same_node(one, other)
    other.Labels = {"x": "y"}
    assert not is_same_node(one, other)
    bigger = info()
    bigger.ComputeNodeInfo.MaxCapacity = Resources(CPU=8)
    assert not is_same_node(info(), bigger)
