"""The tree around a job, and parents that deadlock."""

from tests.core.builders import Stage, finished, joined, submitted

from dragoman.core.family_tree import family_tree
from dragoman.core.why import Reason, why
from dragoman.model.names import JobId
from dragoman.model.parent import Parent


def test_the_tree_names_parent_and_children_the_open_ones_first(stage: Stage) -> None:
    stage.tell(joined("w1", credit=9), submitted("j1"))
    for n in (1, 2, 3):
        stage.tell(submitted(f"k{n}", client="w1", parent=Parent("j1", n)))
    stage.tell(finished("w1", "k1"))
    tree = family_tree(stage.broker.state, JobId("j1"), limit=2)
    assert [(c.position, c.job, c.state) for c in tree.children] == [
        (2, "k2", "running"),
        (3, "k3", "running"),
    ]
    assert dict(tree.counts) == {"running": 2, "succeeded": 1}
    below = family_tree(stage.broker.state, JobId("k2"))
    assert (below.parent, below.position) == ("j1", 2)
    assert "2 of its child jobs are open" in why(stage.broker.state, JobId("j1")).words


def test_parents_that_wait_for_each_others_slots_are_a_deadlock(stage: Stage) -> None:
    stage.tell(joined("w1", credit=2), submitted("j1"), submitted("j2"))
    stage.tell(submitted("k1", client="w1", parent=Parent("j1", 1)))
    assert stage.why("k1") is Reason.ALL_BUSY  # j2 may end
    stage.tell(submitted("k2", client="w1", parent=Parent("j2", 1)))
    assert stage.why("k1") is Reason.DEADLOCKED
    assert "start another worker" in why(stage.broker.state, JobId("k2")).words


def test_a_deadlock_over_two_services_is_one(stage: Stage) -> None:
    stage.tell(joined("w1", "a", credit=1), joined("w2", "b", credit=1))
    stage.tell(submitted("j1", "a"), submitted("j2", "b"))
    stage.tell(submitted("k1", "b", client="w1", parent=Parent("j1", 1)))
    stage.tell(submitted("k2", "a", client="w2", parent=Parent("j2", 1)))
    assert stage.why("k1") is stage.why("k2") is Reason.DEADLOCKED


def test_a_parent_that_waits_for_a_busy_service_is_no_deadlock(stage: Stage) -> None:
    stage.tell(joined("w1", "a", credit=1), joined("w2", "b", credit=1))
    stage.tell(submitted("j1", "a"), submitted("j2", "b"))
    stage.tell(submitted("k1", "b", client="w1", parent=Parent("j1", 1)))
    assert stage.why("k1") is Reason.ALL_BUSY
