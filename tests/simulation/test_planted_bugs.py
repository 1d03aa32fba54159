"""The simulation catches each planted bug within few seeds."""

import pytest

from dragoman.testing.bugs import BUGS
from dragoman.testing.simulation import simulate

pytestmark = pytest.mark.sim

#: Bugs that need a rare coincidence, with the seed before one that catches them soon. The seeds
#: from 1 on may take longer than the time limit of a test.
RARE = {
    "early_absence": 36,
    "forgotten_cancel": 20,
    "paused_service_is_dispatched": 199,
    "retry_after_cancel": 81,
    "stuck_behind_a_refused_job": 5,
    "try_again_does_not_count": 17,
    "unstarted_job_counted": 333,
}


@pytest.mark.parametrize("name", list(BUGS))
def test_the_simulator_catches(name: str) -> None:
    with BUGS[name]():
        for seed in range(RARE.get(name, 0) + 1, 2001):
            if simulate(seed, every=3).failure:
                return
    pytest.fail(f"{name} was not caught in 2,000 seeds")
