"""Node timers: progress is recorded, and absent nodes are forgotten."""

from tests.dialects.ncl_fabric import Fabric, Node

from dragoman.dialects.ncl.nodes import REJECTED
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.content import Answer


def goes(fabric: Fabric, node: Node) -> None:
    """Switch a node off."""
    del fabric.nodes[node.side.name]


def forgotten(fabric: Fabric) -> list[str]:
    return [r.detail for r, _ in fabric.entries if r.detail.startswith("forgotten")]


def test_progress_of_a_node_is_put_on_record_now_and_then() -> None:
    fabric = Fabric()
    node = fabric.add()
    fabric.submit()
    node.finish(node.works[0], Answer(value=1))
    before = fabric.kinds().count("changed")
    fabric.wait(31)
    assert fabric.kinds().count("changed") == before + 1
    fabric.wait(120)
    assert fabric.kinds().count("changed") == before + 1


def test_a_node_that_stays_away_is_forgotten_and_a_restart_does_not_bring_it_back() -> None:
    fabric = Fabric(OrchestratorSettings(forget_after=600.0))
    fabric.add("stays")
    goes(fabric, fabric.add("goes"))
    fabric.wait(600 + 65)
    assert sorted(fabric.side.nodes) == ["goes", "stays"]
    fabric.wait(20)
    assert sorted(fabric.side.nodes) == ["stays"]
    assert forgotten(fabric) == ["forgotten ncl node goes"]
    fabric.restart_broker()
    assert sorted(fabric.side.nodes) == ["stays"]
    fabric.add("goes")
    fabric.restart_broker()
    assert sorted(fabric.side.nodes) == ["goes", "stays"]


def test_a_node_with_work_that_waits_for_it_is_not_forgotten_before_that_went_to_others() -> None:
    fabric = Fabric(OrchestratorSettings(forget_after=1.0))
    node = fabric.add("busy")
    fabric.submit()
    goes(fabric, node)
    fabric.wait(75 + 180 + 4)
    assert "busy" in fabric.side.nodes
    fabric.wait(5)
    assert "busy" not in fabric.side.nodes
    other = fabric.add("other")
    other.finish(other.works[0], Answer(value=3))
    assert fabric.value() == 3


def test_a_rejected_node_is_never_forgotten() -> None:
    fabric = Fabric(OrchestratorSettings(forget_after=1.0))
    node = fabric.add("bad")
    fabric.side.set_membership("bad", REJECTED, fabric.now)
    goes(fabric, node)
    fabric.wait(10_000, step=100)
    assert fabric.side.nodes["bad"].membership == REJECTED
    assert fabric.side.next_deadline() is None
