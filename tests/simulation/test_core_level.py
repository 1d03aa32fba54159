"""Some seeds of the core level, checked after every event. `make sim` runs the rest."""

from pathlib import Path

import pytest

from dragoman.testing.simulation import simulate

pytestmark = pytest.mark.sim

#: Seeds that found a bug once, one per line, with the bug.
OLD_FAILURES = [
    int(line.split()[0])
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


@pytest.mark.parametrize("seed", range(8))
def test_no_promise_is_broken(seed: int) -> None:
    assert not (outcome := simulate(seed)).failure, outcome.failure


@pytest.mark.parametrize("first", range(8, 28, 4))
def test_no_promise_is_broken_where_less_is_looked_at(first: int) -> None:
    for seed in range(first, first + 4):
        assert not (outcome := simulate(seed, every=20)).failure, outcome.failure


@pytest.mark.parametrize("seed", OLD_FAILURES)
def test_what_broke_once_stays_mended(seed: int) -> None:
    assert not (outcome := simulate(seed, every=20)).failure, outcome.failure


def test_the_same_seed_has_the_same_trace_and_another_seed_another() -> None:
    first, second, other = simulate(11, every=50), simulate(11, every=50), simulate(12, every=50)
    assert first == second
    assert first.trace != other.trace


def test_looking_changes_nothing() -> None:
    assert simulate(13, every=1).trace == simulate(13, every=1000).trace
