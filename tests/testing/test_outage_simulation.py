"""Worlds in which only the broker fails: each job runs once and succeeds."""

import pytest

from dragoman.testing.outage_simulation import simulate_outages
from dragoman.testing.sim_dialects import SIM_DIALECTS

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", list(SIM_DIALECTS))
def test_no_job_runs_twice_or_fails_on_a_worker_of(name: str) -> None:
    for seed in range(1, 9):
        outcome = simulate_outages(seed, every=5, only=(name,))
        assert not outcome.failure, outcome.failure


@pytest.mark.parametrize(
    ("seed", "only"),
    [
        (4, ("dcp",)),  # a join that waited unread took back work that was sent after it
        (5, ("mdp",)),  # the same
        (51, ("zss",)),  # a pause without a timer in it was not noticed
        (225, tuple(SIM_DIALECTS)),  # a pause before the judgement after another one
    ],
)
def test_what_broke_once_stays_mended(seed: int, only: tuple[str, ...]) -> None:
    outcome = simulate_outages(seed, every=10, only=only)
    assert not outcome.failure, outcome.failure


def test_every_outage_occurs_and_a_seed_decides_everything() -> None:
    outcomes = [simulate_outages(seed, every=25) for seed in range(1, 9)]
    faults = {kind for outcome in outcomes for kind in outcome.faults}
    assert {"broker crash", "broker pause", "clock jump", "snapshot damage"} <= faults
    assert simulate_outages(1, every=25).trace == outcomes[0].trace
