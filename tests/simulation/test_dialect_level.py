"""Some seeds of the dialect level: each dialect alone, and all in one world."""

import pytest

from dragoman.testing.dialect_simulation import simulate_dialects
from dragoman.testing.sim_dialects import SIM_DIALECTS

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", list(SIM_DIALECTS))
def test_no_promise_is_broken_in(name: str) -> None:
    for seed in range(6):
        outcome = simulate_dialects(seed, every=5, only=(name,))
        assert not outcome.failure, outcome.failure


@pytest.mark.parametrize("seed", range(4))
def test_no_promise_is_broken_where_all_are_spoken(seed: int) -> None:
    outcome = simulate_dialects(seed, every=10, only=tuple(SIM_DIALECTS))
    assert not outcome.failure, outcome.failure


@pytest.mark.parametrize(
    ("seed", "only"),
    [
        (10, ("dcp",)),  # a late reply was taken for the answer to the only open request
        (16, ("dcp",)),  # a failure became an empty success after a restart
        (24, tuple(SIM_DIALECTS)),  # the first, across dialects
    ],
)
def test_what_broke_once_stays_mended(seed: int, only: tuple[str, ...]) -> None:
    outcome = simulate_dialects(seed, every=10, only=only)
    assert not outcome.failure, outcome.failure
