"""Worlds of three nodes: every seed keeps the promises, and is the same again."""

import pytest

from dragoman.testing.cluster_simulation import simulate_cluster

pytestmark = pytest.mark.sim

SEEDS = range(1, 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_loses_nothing_and_agrees(seed: int) -> None:
    outcome = simulate_cluster(seed)
    assert not outcome.failure, outcome.failure
    assert outcome.records > 50


def test_the_same_seed_is_the_same_world() -> None:
    assert simulate_cluster(7) == simulate_cluster(7)


def test_every_fault_happens_in_some_world() -> None:
    faults: set[str] = set()
    for seed in range(1, 6):
        faults |= set(simulate_cluster(seed).faults)
    assert faults == {
        *("crash", "pause", "partition", "hand-over", "clock jump", "no quorum"),
        *("in doubt", "stream"),
    }
