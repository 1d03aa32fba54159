"""A short soak: every kind of fault at least once, on real processes."""

from pathlib import Path

import pytest

from dragoman.testing.soak.__main__ import options
from dragoman.testing.soak.run import Soak
from dragoman.testing.soak.verdict import describe, judge


@pytest.mark.crash
@pytest.mark.timeout(400)
def test_nothing_is_lost_while_everything_is_killed_cut_stopped_and_slow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Soak(tmp_path, seed=11, say=lambda words: None).run(45, every=5, spared=0.2)
    with capsys.disabled():
        print(f"\n{describe(found)}")
    assert judge(found) == []
    assert len(found.faults) >= 4
    assert found.samples


def test_a_soak_takes_ten_minutes_with_a_fault_every_ten_seconds_by_default() -> None:
    asked = options().parse_args([])
    assert (asked.minutes, asked.every, asked.spared, asked.seed) == (10.0, 10.0, 0.5, None)
