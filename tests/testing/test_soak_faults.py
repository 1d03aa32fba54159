"""The faults of a soak."""

from functools import partial
from pathlib import Path

from dragoman.testing.fabric import Fabric
from dragoman.testing.soak.faults import Faults


def test_a_fault_that_fails_ends_the_faults_and_is_reported(tmp_path: Path) -> None:
    """There is no process here, so the first fault fails."""
    faults = Faults(Fabric(tmp_path), {}, {}, seed=1, every=0.01)
    faults.start()
    faults.join(30)
    assert faults.error
    assert not faults.counts


def played(folder: Path, seed: int) -> list[str]:
    """Run twelve harmless faults of six kinds."""
    said: list[str] = []
    faults = Faults(Fabric(folder), {}, {}, seed, every=0.001)
    faults._kinds = {name: partial(said.append, name) for name in "abcdef"}
    faults.start()
    while len(said) < 12:
        faults.join(0.001)
    faults.end()
    return said[:12]


def test_each_kind_comes_in_turn_in_an_order_that_the_seed_says(tmp_path: Path) -> None:
    one, retries, other = (played(tmp_path, seed) for seed in (1, 1, 2))
    assert set(one[:6]) == set(one[6:]) == set("abcdef")
    assert one == retries != other


def test_a_broker_that_is_spared_is_killed_no_more_and_all_else_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    faults = Faults(Fabric(tmp_path), {}, {}, seed=1, every=0.001)
    kinds = list(faults._kinds)
    faults._kinds = {name: partial(said.append, name) for name in kinds}
    faults.stop_broker_kills()
    faults.start()
    while len(said) < 2 * len(kinds):
        faults.join(0.001)
    faults.end()
    assert set(said) == {*kinds} - {"broker killed"}
    assert faults.counts["broker killed"] == 0
