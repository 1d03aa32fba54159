"""Workers without an identity: every job succeeds, whatever the broker goes through."""

import pytest

from dragoman.testing.unnamed_simulation import simulate_unnamed

pytestmark = pytest.mark.sim


def test_every_job_succeeds_and_each_answer_is_for_its_own_question() -> None:
    outcomes = [simulate_unnamed(seed, every=10) for seed in range(1, 21)]
    assert [o.failure for o in outcomes if o.failure] == []
    assert sum(o.faults["broker crash"] for o in outcomes) > 20


def test_a_seed_decides_everything() -> None:
    assert simulate_unnamed(3, every=25).trace == simulate_unnamed(3, every=25).trace
