"""The worlds of clusters catch each planted bug of clusters within few seeds."""

import pytest

from dragoman.testing.bugs.cluster import BUGS
from dragoman.testing.cluster_simulation import simulate_cluster

# One bug needs 43 worlds: 23 s of CPU, and more than a minute on a busy disk.
pytestmark = [pytest.mark.sim, pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", list(BUGS))
def test_the_simulator_catches(name: str) -> None:
    with BUGS[name]():
        for seed in range(1, 101):
            if simulate_cluster(seed).failure:
                return
    pytest.fail(f"{name} was not caught in 100 seeds")
