"""Nodes restored from their recorded states."""

from dragoman.core.effects import LinkPast
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.models import ConnectionRecord, NodeInfo, NodeState
from dragoman.dialects.ncl.recovery import read_nodes
from dragoman.model.body import Body
from dragoman.model.names import PeerId

PAST = LinkPast(9, peer_states={PeerId("ncl/n-1"): 2})


def test_a_node_is_as_its_record_says() -> None:
    record = ConnectionRecord(LastOrchestratorSeqNum=9)
    state = Body("ncl", (dump(NodeState(NodeInfo("n-1"), ConnectionState=record)),))
    (found,) = read_nodes(PAST, {2: state}.get)
    assert found.ConnectionState.LastOrchestratorSeqNum == 9


def test_a_state_that_cannot_be_read_is_a_node_that_is_new_again() -> None:
    nothing: dict[int, Body] = {}
    assert list(read_nodes(PAST, nothing.get)) == []
    assert list(read_nodes(PAST, {2: Body("ncl", (b"nonsense",))}.get)) == []
    assert list(read_nodes(PAST, {2: Body("ncl")}.get)) == []
