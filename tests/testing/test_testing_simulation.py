"""One seed of the core level."""

from dragoman.testing.simulation import simulate
from dragoman.testing.workers import SimWorker


def test_a_world_that_breaks_nothing_says_so() -> None:
    outcome = simulate(3)
    assert outcome.failure == ""
    assert outcome.events > 100
    assert outcome.faults.total() > 10


def test_a_broken_world_is_described_with_its_seed_and_how_to_see_it_again() -> None:
    old = SimWorker.receive
    try:
        SimWorker.receive = lambda self, effect: 1 / 0  # type: ignore[method-assign,assignment]
        outcome = simulate(3)
    finally:
        SimWorker.receive = old  # type: ignore[method-assign]
    assert "seed 3, step" in outcome.failure
    assert "ZeroDivisionError" in outcome.failure
    assert "python -m dragoman.testing --seed 3" in outcome.failure
    assert "-> broker" in outcome.failure
