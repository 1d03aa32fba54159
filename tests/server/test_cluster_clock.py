"""A standby that takes over continues the leader's clock."""

import pytest
from structlog.testing import capture_logs

from dragoman.server.cluster_clock import ClusterClock


class Times:
    wall = 1_000_000.0
    steady = 50.0


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def clock(times: Times) -> ClusterClock:
    return ClusterClock(lambda: times.wall, lambda: times.steady)


def test_a_node_that_heard_no_leader_has_its_own_clock(clock: ClusterClock) -> None:
    assert clock.now() == 1_000_000.0


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 6.0])
def test_a_clock_that_is_off_does_not_count(clock: ClusterClock, times: Times, jump: float) -> None:
    clock.hear(times.wall)
    times.steady += 2.0
    times.wall += 2.0 + jump
    assert clock.now() == 1_000_002.0
    with capture_logs() as said:
        clock.warn()
    assert [each["ahead_s"] for each in said] == [jump]


def test_small_differences_are_left_to_the_own_clock(clock: ClusterClock, times: Times) -> None:
    clock.hear(times.wall - 0.4)
    assert clock.now() == times.wall
    with capture_logs() as said:
        clock.warn()
    assert not said


def test_it_runs_on_while_the_leader_says_nothing(clock: ClusterClock, times: Times) -> None:
    clock.hear(times.wall)
    times.steady += 7200.0
    times.wall += 7200.0
    assert clock.now() == times.wall
