"""An attack on a live broker: what it reports, and a small attack that passes."""

from pathlib import Path

import pytest

from dragoman.testing.fabric import Fabric
from dragoman.testing.fuzz.__main__ import main
from dragoman.testing.fuzz.attack import SETTINGS, AttackOutcome, attack, start_peers


def test_an_outcome_says_its_figures_and_its_troubles() -> None:
    outcome = AttackOutcome("nfp", 7, sent=10, honest_calls=3)
    assert "seed 7" in str(outcome)
    assert str(outcome).endswith("held")
    outcome.problems.append("the broker is gone")
    assert str(outcome).endswith("the broker is gone")


@pytest.mark.interop
def test_an_attack_notices_a_broker_that_dies(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, SETTINGS)
    try:
        start_peers(fabric, ["nfp"])
        held = attack(fabric, "nfp", 1, 1000)
        assert not held.problems
        assert held.sent == 1000
        assert held.honest_calls
        fabric.kill_broker()
        with pytest.raises(OSError, match="refused"):
            attack(fabric, "nfp", 1, 1000)
    finally:
        fabric.stop()


@pytest.mark.interop
def test_the_command_prints_its_seed_and_says_by_its_exit_code_that_all_held(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--messages", "1000", "--links", "dcp", "--seed", "5"]) == 0
    assert "seed 5" in capsys.readouterr().out
