"""The command: seeds, bounds, the closing line."""

import pytest

from dragoman.testing.__main__ import main
from dragoman.testing.bugs import BUGS


def test_a_few_seeds_end_with_a_line_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--jobs", "1", "--first", "2"]) == 0
    [*_, last] = capsys.readouterr().out.splitlines()
    assert last.startswith("2 seeds, ")
    assert "0 failures" in last


def test_it_stops_when_there_were_enough_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--faults", "1", "--jobs", "1", "--first", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 seeds, ")


def test_one_seed_is_shown_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "2"]) == 0
    assert "trace " in capsys.readouterr().out


def test_a_broken_promise_is_shown_and_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with BUGS["ack_before_sync"]():
        assert main(["--seed", "2"]) == 1
        assert main(["--seeds", "3", "--jobs", "1", "--first", "2"]) == 1
    out = capsys.readouterr().out
    assert "the last exchanges" in out
    assert "1 failures" in out
