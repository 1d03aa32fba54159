"""A wrong clock at the start does not expire the queue."""

from typing import Any

import pytest
from tests.core.builders import submitted

from dragoman.core.broker import Broker
from dragoman.core.job_store import JobStore
from dragoman.server.clock import Clock
from dragoman.server.clock_check import describe_clock, require_plausible

DAY = 86_400.0
NOW = 1_800_000_000.0


def store(**terms: Any) -> JobStore:
    """A job, submitted now."""
    broker = Broker()
    broker.handle(submitted("j1", **terms), NOW)
    return broker.state.store


def clock(wall: float, at_least: float = 0.0) -> Clock:
    return Clock(at_least, lambda: wall, lambda: 0.0)


def test_a_jump_that_would_expire_open_jobs_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"1 open jobs would expire.*--accept-clock"):
        require_plausible(store(timeout=600.0), NOW + 2 * DAY, DAY)


def test_a_jump_that_costs_nothing_is_accepted() -> None:
    require_plausible(store(timeout=600.0), NOW + 3600, DAY)
    require_plausible(store(), NOW + 2 * DAY, DAY)
    require_plausible(JobStore(), NOW, DAY)


def test_a_remarkable_clock_is_described() -> None:
    assert describe_clock(store(), clock(NOW + 5), DAY) == ""
    assert "2 d 0 h after" in describe_clock(store(), clock(NOW + 2 * DAY), DAY)
    ahead = describe_clock(store(), clock(NOW - 2 * DAY, at_least=NOW), DAY)
    assert "2 d 0 h ahead of the wall clock" in ahead
    assert "for 4 d 0 h to come back" in ahead
