"""Capacity: what fits and what is left."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.capacity import NOTHING, Capacity

capacities = st.builds(
    Capacity,
    cpu=st.integers(0, 10**6).map(lambda milli: milli / 1000),
    memory=st.integers(0, 2**40),
    disk=st.integers(0, 2**40),
    gpu=st.integers(0, 16),
    slots=st.integers(0, 100),
)


@given(capacities, capacities)
def test_what_is_taken_and_given_back_is_there_again(have: Capacity, need: Capacity) -> None:
    assert have.minus(need).plus(need) == have


@given(capacities, capacities)
def test_something_fits_exactly_when_nothing_is_short_afterwards(
    have: Capacity, need: Capacity
) -> None:
    assert have.holds(need) == have.minus(need).holds(NOTHING)


@given(capacities, capacities)
def test_the_sum_holds_both(one: Capacity, other: Capacity) -> None:
    assert one.plus(other).holds(one)
    assert one.plus(other).minus(one) == other


@pytest.mark.parametrize("kind", ["cpu", "memory", "disk", "gpu", "slots"])
def test_each_kind_counts_for_itself(kind: str) -> None:
    plenty = Capacity(8.0, 8, 8, 8, 8)
    assert plenty.holds(Capacity(**{kind: 8}))
    assert not plenty.holds(Capacity(**{kind: 9}))


def test_fractions_of_a_core_add_up_to_the_whole() -> None:
    tenth = Capacity(cpu=0.1)
    left = Capacity(cpu=0.3).minus(tenth).minus(tenth)
    assert left.holds(tenth)
    assert left.minus(tenth) == NOTHING


def test_nothing_fits_everywhere() -> None:
    assert NOTHING.holds(NOTHING)
    assert not NOTHING.holds(Capacity(slots=1))
