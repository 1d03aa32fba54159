"""Nodes: their events for the core and their records."""

import pytest
from tests.dialects.ncl_vectors import body

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.messages import CancelExecution, HandshakeRequest
from dragoman.dialects.ncl.models import ComputeInfo, NodeInfo, NodeState, Resources
from dragoman.dialects.ncl.nodes import APPROVED, PENDING, REJECTED, Node, capacity_of
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.wire import read_json
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.record import Kind

NOW = 1_700_000_000.0


def info(labels: dict[str, str] | None = None, cpu: float = 4, **more: object) -> NodeInfo:
    return NodeInfo(
        "n-1",
        "Compute",
        labels,
        ["ncl/v1"],
        ComputeInfo(ExecutionEngines=["Docker", "wasm"], MaxCapacity=Resources(CPU=cpu), **more),  # type: ignore[arg-type]
    )


def node(found: NodeInfo | None = None, **settings: object) -> Node:
    return Node("ncl", found or info(), OrchestratorSettings(**settings))  # type: ignore[arg-type]


def test_services_are_engines_in_lower_case_and_those_of_the_label() -> None:
    made = node(info({"dragoman.service": "math, Text,wasm"}))
    assert made.services == ("docker", "wasm", "math", "Text")


@pytest.mark.parametrize(
    ("labels", "cpu", "slots"),
    [
        (None, 4, 4),
        (None, 0.5, 1),
        ({"dragoman.slots": "7"}, 4, 7),
        ({"dragoman.slots": "x"}, 2, 2),
    ],
)
def test_slots_come_from_the_label_or_the_cores(
    labels: dict[str, str] | None, cpu: float, slots: int
) -> None:
    assert node(info(labels, cpu)).slots == slots


def test_a_node_without_capacity_protocol_or_approval_gets_no_work() -> None:
    assert node(info(cpu=0)).slots == 0
    old = info()
    old.SupportedProtocols = ["bprotocol/v2"]
    assert node(old).slots == 0
    assert node(manual_approval=True).slots == 0


def test_a_real_node_s_handshake_is_a_worker_with_its_capacity_as_credit() -> None:
    request = wire.decode(body("ctrl.handshake.request")).payload
    assert isinstance(request, HandshakeRequest)
    made = Node("ncl", request.NodeInfo, OrchestratorSettings())
    joined = made.joined_event()
    assert (joined.worker, joined.credit) == (f"ncl/{request.NodeInfo.NodeID}", 3)
    assert joined.services == ("docker", "wasm")
    assert joined.capacity == Capacity(3.2, 13421772800, 85899345920, 1)
    assert joined.labels["zone"] == "eu<1>&2"
    assert joined.can_cancel is False
    assert joined.credit_returns is True


def test_the_core_s_patience_is_longer_than_ours_with_the_grace() -> None:
    settings = OrchestratorSettings()
    joined = node().joined_event()
    assert joined.beat_every is not None
    patience = settings.disconnect_after + settings.grace
    assert joined.beat_every * joined.missed_allowed > patience


def test_a_beat_tells_what_there_is_for_us_in_all() -> None:
    made = node()
    made.available = Resources(CPU=1)
    assert made.beat_event(Capacity(cpu=2)).capacity == Capacity(cpu=3)
    made.available = Resources(CPU=4)
    assert made.beat_event(Capacity(cpu=2)).capacity == Capacity(cpu=4)
    assert made.beat_event(NOTHING).capacity == Capacity(cpu=4)


def test_progress_is_what_is_surely_acked() -> None:
    made = node()
    made.connect(5, "", NOW)
    made.publisher.put(8, CancelExecution(None, "e"))
    made.publisher.put(9, CancelExecution(None, "f"))
    made.publisher.ack(9)
    assert made.resume == 7
    made.publisher.ack(8)
    assert made.resume == 9
    assert made.is_dirty


def test_its_state_is_on_record_and_comes_back() -> None:
    made = node()
    made.connect(7, "", NOW)
    made.compute_seq = 3
    noted = made.state_note(NOW)
    assert (noted.kind, noted.detail) == (Kind.CHANGED, "ncl node n-1")
    assert not made.is_dirty
    assert noted.body is not None
    again = node()
    again.restore(read_json(NodeState, noted.body.parts[0]), NOW + 5)
    assert (again.resume, again.compute_seq, again.membership) == (7, 3, APPROVED)
    assert not again.is_connected
    assert again.disconnected_at == NOW + 5


def test_a_state_of_a_real_orchestrator_can_be_taken_over() -> None:
    state = read_json(NodeState, body("store.nodestate"))
    made = Node("ncl", state.Info, OrchestratorSettings())
    made.restore(state, NOW)
    assert (made.resume, made.compute_seq) == (1211, 19)
    assert dump(made.state().Info) == dump(state.Info)


def test_membership_is_kept_over_a_restart() -> None:
    made = node(manual_approval=True)
    assert made.membership == PENDING
    made.membership = REJECTED
    again = node()
    again.restore(made.state(), NOW)
    assert again.membership == REJECTED


def test_its_status_tells_gone_rejected_lost_and_unknown_apart() -> None:
    made = node()
    made.connect(0, "", NOW)
    assert made.status == "connected"
    made.disconnect("heartbeat timeout", NOW)
    assert made.status == "unknown"
    made.is_lost = True
    assert made.status == "lost"
    made.connect(0, "", NOW)
    made.disconnect("graceful shutdown", NOW)
    assert made.status == "gone"
    again = node()
    again.restore(made.state(), NOW)
    assert again.row(NOW)["status"] == "gone"
    made.membership = REJECTED
    assert made.row(NOW)["status"] == "rejected"


def test_resources_are_capacity() -> None:
    assert capacity_of(Resources(1, 2, 3, 4)) == Capacity(1.0, 2, 3, 4)
