"""The worlds with outages catch each planted bug of outages within few seeds."""

import pytest

from dragoman.testing.bugs.outages import BUGS, DISK_BUGS, UNNAMED_BUGS
from dragoman.testing.disk_simulation import simulate_disk
from dragoman.testing.outage_simulation import simulate_outages
from dragoman.testing.unnamed_simulation import simulate_unnamed

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", list(BUGS))
def test_the_simulator_catches(name: str) -> None:
    with BUGS[name]():
        for seed in range(1, 201):
            if simulate_outages(seed, every=25).failure:
                return
    pytest.fail(f"{name} was not caught in 200 seeds")


@pytest.mark.parametrize("name", list(UNNAMED_BUGS))
def test_workers_without_an_identity_show(name: str) -> None:
    with UNNAMED_BUGS[name]():
        for seed in range(1, 201):
            if simulate_unnamed(seed, every=25).failure:
                return
    pytest.fail(f"{name} was not caught in 200 seeds")


@pytest.mark.parametrize("name", list(DISK_BUGS))
def test_a_stalled_disk_shows(name: str) -> None:
    with DISK_BUGS[name]():
        for seed in range(1, 201):
            if simulate_disk(seed, every=25).failure:
                return
    pytest.fail(f"{name} was not caught in 200 seeds")
