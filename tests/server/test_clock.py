"""The broker's clock: it never goes backwards, and a wrong start is not kept for ever."""

import time

from dragoman.server.clock import SLEW, Clock


class Machine:
    """A wall clock and a monotonic clock that tests set."""

    def __init__(self, wall: float) -> None:
        self.at = wall
        self.since_boot = 5.0

    def wall(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.since_boot

    def wait(self, seconds: float) -> None:
        self.at += seconds
        self.since_boot += seconds


def clock_on(machine: Machine, at_least: float = 0.0) -> Clock:
    return Clock(at_least, machine.wall, machine.monotonic)


def test_the_clock_starts_at_wall_time_and_goes_on() -> None:
    clock = Clock()
    first = clock.now()
    assert abs(first - time.time()) < 5
    assert clock.now() >= first


def test_the_clock_follows_the_monotonic_clock_when_the_wall_clock_is_set() -> None:
    machine = Machine(1000.0)
    clock = clock_on(machine)
    machine.wait(10)
    machine.at -= 500
    assert clock.now() == 1010.0


def test_the_clock_never_starts_before_the_last_record() -> None:
    assert clock_on(Machine(1000.0), at_least=1600.0).now() == 1600.0


def test_a_clock_that_is_ahead_meets_the_wall_clock_and_stays_with_it() -> None:
    machine = Machine(1000.0)
    clock = clock_on(machine, at_least=1600.0)
    assert clock.ahead == 600.0
    last = clock.now()
    for _ in range(130):
        machine.wait(10)
        assert clock.now() > last
        last = clock.now()
    assert 130 * 10 * SLEW > 600
    assert clock.now() == machine.at
