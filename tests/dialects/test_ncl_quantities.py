"""Amounts in task resources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.ncl.models import TaskResources
from dragoman.dialects.ncl.quantities import cores, needs_of, size
from dragoman.model.capacity import NOTHING, Capacity


@pytest.mark.parametrize(
    ("text", "found"), [("500m", 0.5), ("2", 2.0), ("0.25", 0.25), ("", 0.0), ("two", 0.0)]
)
def test_cores(text: str, found: float) -> None:
    assert cores(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("512mb", 512_000_000),
        ("1gib", 1024**3),
        ("1Gi", 1024**3),
        ("10", 10),
        ("7b", 7),
        ("1.5kb", 1500),
        ("", 0),
        ("5 bananas", 0),
    ],
)
def test_sizes(text: str, found: int) -> None:
    assert size(text) == found


@given(st.text())
def test_any_text_is_a_number(text: str) -> None:
    assert cores(text) >= 0
    assert size(text) >= 0


def test_what_a_task_needs() -> None:
    assert needs_of(None) is NOTHING
    assert needs_of(TaskResources()) is NOTHING
    needs = needs_of(TaskResources("500m", "1gb", "2gb", "1"))
    assert needs == Capacity(0.5, 10**9, 2 * 10**9, 1)
    assert needs_of(TaskResources(GPU="many")).gpu == 0
