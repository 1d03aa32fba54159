import pytest

from dragoman.pipeline.audit import RULES
from dragoman.pipeline.fairness import MOST_TURNS
from dragoman.pipeline.synth_plants import DROPPED, TWICE, planted
from dragoman.pipeline.synth_world import KIND, PROBE, build_world


def test_every_rule_of_the_audit_can_be_broken() -> None:
    world = build_world()
    batch = planted(world, RULES, 1_000)
    assert set(batch["service"].tolist()) == {world.services.index(PROBE)}
    assert sorted(set(batch["flag"].tolist())) == [0, DROPPED, TWICE]


@pytest.mark.parametrize("rule", RULES)
def test_a_planted_fault_is_in_order_and_begins_with_its_job(rule: str) -> None:
    batch = planted(build_world(), [rule], 1_000)
    assert batch["at"].tolist() == sorted(set(batch["at"].tolist()))
    assert batch["kind"][0] == KIND["submitted"]


def test_the_unfair_wait_is_one_turn_beyond_the_bound() -> None:
    batch = planted(build_world(), ["unfair_wait"], 1_000)
    assert (batch["kind"] == KIND["dispatched"]).sum() == MOST_TURNS + 2
