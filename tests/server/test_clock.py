"""The broker's clock."""

import time

from dragoman.server.clock import Clock


def test_the_clock_starts_at_wall_time_and_goes_on() -> None:
    clock = Clock()
    first = clock.now()
    assert abs(first - time.time()) < 5
    assert clock.now() >= first


def test_the_clock_never_starts_before_the_last_record() -> None:
    future = time.time() + 1000
    assert Clock(at_least=future).now() >= future
