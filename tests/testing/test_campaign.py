"""Many worlds: on several processes, and with enough variety."""

import pytest

from dragoman.testing.campaign import (
    CLOSELY_EVERY,
    DIALECTS_EVERY,
    SPARSE,
    CampaignBounds,
    CampaignTally,
    outcomes,
    run,
    run_seed,
)
from dragoman.testing.dialect_simulation import simulate_dialects


def test_some_seeds_are_spoken_and_some_are_looked_at_closely() -> None:
    assert run_seed(DIALECTS_EVERY) == simulate_dialects(DIALECTS_EVERY, every=SPARSE)
    assert CLOSELY_EVERY % DIALECTS_EVERY == 0


@pytest.mark.process
def test_processes_of_their_own_come_to_the_same_outcomes() -> None:
    here = {o.seed: o for o in outcomes([10, 20], jobs=1)}
    there = {o.seed: o for o in outcomes([10, 20], jobs=2)}
    assert here == there


def test_a_tally_adds_up_what_the_worlds_came_to() -> None:
    tally, said = CampaignTally(), list[str]()
    tally.add(run_seed(10))
    tally.add(run_seed(20))
    assert tally.seeds == 2
    assert f"{tally.faults.total():,} faults" in tally.line()
    assert run(CampaignBounds(first=10, seeds=1), said.append).seeds == 1


def test_a_run_stops_when_its_time_is_over() -> None:
    assert run(CampaignBounds(first=10, minutes=1e-9), lambda words: None).seeds == 1
