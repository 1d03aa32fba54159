"""Ids of calls: a function of run, service, task and key, and of nothing else."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.spark.keys import chunk_id, next_id, row_id

KEYS = st.dictionaries(
    st.text(max_size=5), st.none() | st.integers(-9, 9) | st.text(max_size=5) | st.booleans()
)


@given(KEYS)
def test_equal_keys_have_equal_ids_in_whatever_order_they_are_said(key: dict[str, Any]) -> None:
    turned = dict(reversed(key.items()))
    assert row_id("r", "s", "t", key) == row_id("r", "s", "t", turned)
    assert len(row_id("r", "s", "t", key)) == 32


@given(KEYS, KEYS)
def test_different_keys_have_different_ids(one: dict[str, Any], other: dict[str, Any]) -> None:
    is_same = [*map(repr, sorted(one.items()))] == [*map(repr, sorted(other.items()))]
    assert (row_id("r", "s", "t", one) == row_id("r", "s", "t", other)) == is_same


@pytest.mark.parametrize(
    "said", [("R", "s", "t"), ("r", "S", "t"), ("r", "s", "T"), ("rs", "", "t")]
)
def test_run_service_and_task_are_part_of_the_id(said: tuple[str, str, str]) -> None:
    assert row_id("r", "s", "t", 1) != row_id(*said, 1)


def test_instants_and_decimals_can_be_keys() -> None:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    assert row_id("r", "s", "t", [at, Decimal("1.50")]) != row_id("r", "s", "t", [at, Decimal("2")])


def test_another_attempt_and_a_chunk_have_ids_of_their_own() -> None:
    one, two = row_id("r", "s", "t", 1), row_id("r", "s", "t", 2)
    assert len({one, two, next_id(one, 1), next_id(one, 2), next_id(two, 1)}) == 5
    assert chunk_id([one, two]) != chunk_id([two, one])
    assert next_id(one, 1) == next_id(one, 1)
