"""The worlds of linked brokers catch each planted bug of theirs within few seeds."""

import pytest

from dragoman.testing.bugs.mesh import BUGS
from dragoman.testing.mesh_simulation import simulate_mesh

pytestmark = pytest.mark.sim

#: Bugs that few worlds show: the first seed to try, so that the test is short.
FIRST = {"failures_tried_again_by_both": 38, "polls_overtake_work": 510}


@pytest.mark.parametrize("name", list(BUGS))
def test_the_simulator_catches(name: str) -> None:
    first = FIRST.get(name, 1)
    with BUGS[name]():
        for seed in range(first, first + 60):
            if simulate_mesh(seed, every=50).failure:
                return
    pytest.fail(f"{name} was not caught in 60 seeds")
