"""The verdict of a soak: each failed check is reported."""

from collections import Counter
from typing import Any

import pytest

from dragoman.model.record import Kind, Record
from dragoman.testing.soak.load import CallerTally
from dragoman.testing.soak.verdict import Figures, Sample, describe, judge, read_ledger, slope

MIB = 2**20


def figures(**other: Any) -> Figures:
    tally = other.pop("tally", CallerTally("nfp", asked=2, answered=2, jobs=["a", "b"]))
    whole = {
        "tallies": [tally],
        "faults": Counter({"wire cut": 1}),
        "samples": [Sample(minute, 100 * MIB, 50) for minute in range(5)],
        "ended": Counter("ab"),
        "states": Counter({"succeeded": 2}),
        "open_jobs": 0,
        "internal_errors": 0,
        "seconds": 60.0,
    }
    return Figures(**{**whole, **other})


def test_a_soak_in_which_all_held_has_nothing_against_it() -> None:
    assert judge(figures()) == []
    said = describe(figures())
    assert "asked      2, answered      2" in said
    assert "one process for 4.0 minutes: 100 -> 100 MiB, +0.00 MiB a minute (at most +2.00)" in said


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"tally": CallerTally("nfp", asked=2, answered=1, jobs=["a"])}, "2 asked, 1 answered"),
        ({"tally": CallerTally("nfp", asked=1, lost=["nfp 0: gone"])}, "lost: nfp 0: gone"),
        ({"tally": CallerTally("nfp", 2, 2, wrong=1, jobs=["a"])}, "1 answers were wrong"),
        ({"tally": CallerTally("nfp", 1, 1, jobs=["z"])}, "1 answered jobs are not in the ledger"),
        ({"tally": CallerTally("dcp")}, "no job was answered"),
        ({"ended": Counter("aab")}, "ended more than once"),
        ({"open_jobs": 3}, "3 jobs of the ledger have not ended"),
        ({"internal_errors": 2}, "2 internal errors"),
        (
            {"samples": [Sample(m, (100 + 3 * m) * MIB, 50) for m in range(5)]},
            "by 3.0 MiB a minute",
        ),
        ({"samples": [Sample(m, 100 * MIB, 50 + 9 * m) for m in range(5)]}, "50 to 86"),
        ({"problems": ["a fault failed"]}, "a fault failed"),
    ],
)
def test_each_failed_check_is_reported(other: dict[str, Any], words: str) -> None:
    assert any(words in each for each in judge(figures(**other)))


def test_a_relaxed_job_may_be_missing_from_the_ledger() -> None:
    assert judge(figures(tally=CallerTally("zss", asked=1, answered=1, jobs=["z"]))) == []


def test_the_ledger_is_counted_by_job() -> None:
    records = [
        Record(1, 1.0, Kind.SUBMITTED, job="a"),
        Record(2, 1.0, Kind.SUBMITTED, job="b"),
        Record(3, 2.0, Kind.ENDED, job="a", state="succeeded"),
    ]
    assert read_ledger(records) == (Counter("a"), Counter({"succeeded": 1}), 1)


def test_the_slope_is_per_minute_and_nothing_without_samples() -> None:
    assert slope([Sample(m, 5 * m, 1) for m in range(4)]) == pytest.approx(5)
    assert slope([]) == slope([Sample(1, 1, 1)] * 5) == 0


def test_memory_that_moves_less_than_the_bound_is_flat() -> None:
    assert judge(figures(samples=[Sample(m, (100 + m) * MIB, 50) for m in range(5)])) == []


def test_the_memory_of_a_short_soak_is_shown_and_not_judged() -> None:
    short = figures(samples=[Sample(m / 10, (100 + 50 * m) * MIB, 50) for m in range(5)])
    assert judge(short) == []
    assert "100 -> 300 MiB" in describe(short)
    assert "too short to judge" in describe(short)
