"""The core keeps the fairness bound, and a violation is noticed."""

import pytest
from tests.core.builders import Stage, finished, joined, submitted

from dragoman.core.effects import Append
from dragoman.core.events import Event
from dragoman.core.lanes import Turns
from dragoman.testing.bugs.planting import replaced
from dragoman.testing.fairness import Fairness


def play(stage: Stage, fairness: Fairness, *events: Event) -> None:
    for event in events:
        effects = stage.tell(event)
        records = [e.record for e in effects if isinstance(e, Append)]
        fairness.observe(records, stage.broker.state)


def flood(stage: Stage) -> None:
    fairness = Fairness()
    play(stage, fairness, joined("w1", credit=1, credit_returns=True), submitted("first"))
    play(stage, fairness, *(submitted(f"a{n}", client="flood") for n in range(5)))
    play(stage, fairness, submitted("b", client="calm"))
    for _ in range(6):
        [part] = stage.worker().held.values()
        play(stage, fairness, finished("w1", part.job.id))


def test_turns_keep_the_bound() -> None:
    flood(Stage())


def test_a_client_served_twice_before_another_is_noticed() -> None:
    def leave_it(self: Turns, client: str, weight: int) -> None:
        self.numbers[client] = 0  # type: ignore[index]

    with (
        replaced(Turns, "served", leave_it),
        pytest.raises(AssertionError, match="flood was served 2 times while local/calm waited"),
    ):
        flood(Stage())


def test_the_highest_weight_of_a_turn_counts() -> None:
    """A client of weight 2 that adopted a job of weight 1 may still be served twice."""
    stage, fairness = Stage(), Fairness()
    play(stage, fairness, joined("w1", credit=1, credit_returns=True), submitted("first"))
    play(stage, fairness, submitted("a0", client="flood", weight=2))
    play(stage, fairness, submitted("a1", client="flood", weight=1))
    play(stage, fairness, submitted("b", client="calm"))
    order = []
    for _ in range(4):
        [part] = stage.worker().held.values()
        order.append(part.job.id)
        play(stage, fairness, finished("w1", part.job.id))
    assert order == ["first", "a0", "a1", "b"]
