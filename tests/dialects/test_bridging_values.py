"""`docs/bridging-values.md` says what becomes of each value."""

from pathlib import Path

from tests.dialects.bridging_values import PAIRS, VALUES, as_argument, as_result, describe, page

PAGE = Path(__file__).parents[2] / "docs" / "bridging-values.md"


def test_the_page_is_what_a_run_finds() -> None:
    command = "python -m tests.dialects.bridging_values > docs/bridging-values.md"
    assert PAGE.read_text() == page(), f"run: {command}"


def test_no_value_becomes_a_fault_or_other_bytes() -> None:
    """Changes keep the meaning: tuples are lists, dates text, large integers floats."""
    for name, value in VALUES.items():
        for pair in PAIRS:
            for outcome in (as_argument(value, pair), as_result(value, pair)):
                assert "Fault(" not in outcome, (name, pair, outcome)
                if not isinstance(value, bytes | bytearray | list):
                    assert not outcome.startswith("changed to `b"), (name, pair, outcome)


def test_pairs_are_described_by_what_they_have_in_common() -> None:
    assert describe(list(PAIRS)) == "all pairs"
    assert describe([p for p in PAIRS if "zss" in p]) == "zss clients; zss workers"
    assert describe([("nfp", "dcp"), ("http", "dcp")]) == "nfp, http > dcp"
