"""Planted bugs of workflows: for each, the smallest scenario that breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, cancelled, finished, joined, kinds, left, submitted
from tests.testing.promises import around

from dragoman.model.parent import Parent
from dragoman.testing.bugs.families import BUGS

CHILD = Parent("j1", 1)


def a_rerun_gets_the_child_of_the_first_run(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=9), submitted("j1"), submitted("k1", parent=CHILD))
    stage.tell(finished("w1", "k1"), joined("w2"), left("w1"))
    return "submitted" not in kinds(stage.tell(submitted("k1", parent=CHILD)))


def a_cancel_reaches_the_children(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=9), submitted("j1"), submitted("k1", "b", parent=CHILD))
    stage.tell(cancelled("j1"))
    return bool(stage.job("k1").is_final)


def a_child_ends_with_its_parents_deadline(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=9), submitted("j1", timeout=10.0))
    stage.tell(submitted("k1", "b", parent=CHILD))
    return bool(stage.job("k1").deadline_at == stage.job("j1").deadline_at)


def a_result_is_held_for_its_parent(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=9), submitted("j1"), submitted("k1", parent=CHILD))
    stage.tell(finished("w1", "k1"))
    stage.wait(2 * stage.limits.retention)
    return "k1" in stage.broker.state.store.jobs


STORIES: dict[str, Callable[[Stage], bool]] = {
    "child_repeated_after_a_rerun": a_rerun_gets_the_child_of_the_first_run,
    "cancel_that_does_not_pass_down": a_cancel_reaches_the_children,
    "child_outlives_the_deadline_of_its_parent": a_child_ends_with_its_parents_deadline,
    "result_of_a_child_forgotten_while_its_parent_runs": a_result_is_held_for_its_parent,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
