"""Worlds of brokers that work for each other: each job runs once, wherever it goes."""

import pytest

from dragoman.testing.mesh_simulation import simulate_mesh

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("first", [1, 6, 11])
def test_no_job_runs_twice_goes_in_a_circle_or_hangs(first: int) -> None:
    for seed in range(first, first + 5):
        outcome = simulate_mesh(seed, every=25)
        assert not outcome.failure, outcome.failure


def test_every_fault_occurs_and_a_seed_decides_everything() -> None:
    outcomes = [simulate_mesh(seed, every=50) for seed in range(1, 5)]
    faults = {kind for outcome in outcomes for kind in outcome.faults}
    assert {"broker crash", "link broken", "link stalled", "service gone"} <= faults
    assert simulate_mesh(1, every=50).trace == outcomes[0].trace
