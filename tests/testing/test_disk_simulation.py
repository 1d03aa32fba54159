"""Worlds whose disk stalls: each job runs once, although its worker registers again meanwhile."""

import pytest

from dragoman.testing.disk_simulation import REPORTING, simulate_disk

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", REPORTING)
def test_no_job_runs_twice_or_fails_on_a_worker_of(name: str) -> None:
    outcomes = [simulate_disk(seed, every=25, only=(name,)) for seed in range(1, 9)]
    assert [o.failure for o in outcomes if o.failure] == []
    assert sum(o.faults["disk stall"] for o in outcomes) >= len(outcomes)


def test_a_seed_decides_everything() -> None:
    assert simulate_disk(3, every=25).trace == simulate_disk(3, every=25).trace
