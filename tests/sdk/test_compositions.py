"""Plans as data: what they look like, and which are refused."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from dragoman import BadPlan, Chain, Group, Map, Retry, Step
from dragoman.sdk.compositions import Plan, positions_of, read_plan

ADD = Step("math", "add", 1, y=2)


@pytest.mark.parametrize(
    "plan",
    [
        ADD,
        ADD.alone(),
        ADD.with_options(timeout=3, retries=Retry(2, backoff=0.5), delay=timedelta(minutes=1)),
        Chain(ADD, Group(ADD, Chain(ADD), window=2), Map(ADD, [1, 2], window=7), Map(ADD)),
    ],
)
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    assert read_plan(plan.members()).members() == plan.members()


def test_options_become_json_values() -> None:
    step = ADD.with_options(retries=Retry(2), delay=timedelta(minutes=1)).with_options(priority=3)
    assert step.call_members()["options"] == {
        "retries": {"times": 2},
        "delay": 60,
        "priority": 3,
    }
    with pytest.raises(BadPlan, match="no option 'speed'; use at, delay"):
        ADD.with_options(speed=1)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (7, "a plan is an object"),
        ({}, "a plan is an object"),
        ({"step": {"service": "math"}}, "service and task"),
        ({"step": 1}, "service and task"),
        ({"step": {"service": "m", "task": "t", "args": {"x": 1}}}, "kwargs an object"),
        ({"step": {"service": "m", "task": "t", "options": {"key": "x"}}}, "no option 'key'"),
        ({"chain": 1}, "list of plans"),
        ({"group": [], "window": 0}, "window"),
        ({"map": ADD.members()["step"], "items": 5}, "items of a map"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(members: Any, reason: str) -> None:
    with pytest.raises(BadPlan, match=reason):
        read_plan(members)


def test_a_plan_is_neither_too_deep_nor_too_long() -> None:
    deep: Plan = ADD
    for _ in range(40):
        deep = Chain(deep)
    with pytest.raises(BadPlan, match="32 deep"):
        read_plan(deep.members())
    long = read_plan(Group(*[ADD] * 10_001).members())
    with pytest.raises(BadPlan, match="10,001 steps"):
        positions_of(long)


def test_each_step_has_positions_of_its_own() -> None:
    plan = read_plan(Chain(Group(ADD, ADD), Map(ADD)).members())
    positions, room = positions_of(plan)
    found = sorted(positions.values())
    assert len(found) == 3
    assert all(later - earlier == room for earlier, later in pairwise(found))
    assert found[-1] + room - 1 <= 10_000_000
