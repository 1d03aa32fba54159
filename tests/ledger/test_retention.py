"""Which records retention may remove."""

import pytest
from tests.ledger.entries import entries

from dragoman.ledger.base import LedgerError
from dragoman.ledger.retention import (
    last_removable,
    require_kept,
    require_next,
    require_position,
)


@pytest.mark.parametrize(
    ("policies", "checkpoints", "expected"),
    [
        ([], [], 0),
        ([], [50], 0),
        ([10], [], 10),
        ([10, 7], [], 7),
        ([10], [4, 6], 4),
        ([10], [0], 0),
        ([-5], [], 0),
    ],
)
def test_the_least_bound_wins(policies: list[int], checkpoints: list[int], expected: int) -> None:
    assert last_removable(policies, checkpoints) == expected


def test_a_batch_must_follow_and_have_no_gaps() -> None:
    require_next(entries(5, 7), 4)
    with pytest.raises(LedgerError, match="record 5 does not follow 3: expected 4"):
        require_next(entries(5, 7), 3)


def test_position_zero_means_from_the_oldest_kept() -> None:
    require_kept(0, 100)
    require_kept(99, 100)
    with pytest.raises(LedgerError, match="records 99 to 99 were removed"):
        require_kept(98, 100)


def test_a_checkpoint_lies_in_the_ledger() -> None:
    require_position("r", 0, 0)
    with pytest.raises(LedgerError, match="'r' at 1 is outside"):
        require_position("r", 1, 0)
