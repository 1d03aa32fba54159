"""Runs a scenario that must keep a promise, with and without a planted bug."""

from collections.abc import Callable
from typing import TypeVar

from dragoman.testing.bugs.planting import Bug

#: What a scenario runs on: a broker or a simulated server.
P = TypeVar("P")


def is_kept(scenario: Callable[[P], bool], make: Callable[[], P]) -> bool:
    """Run a scenario; a violated invariant of the broker counts as a broken promise."""
    try:
        return scenario(make())
    except AssertionError:
        return False


def around(bug: Bug, scenario: Callable[[P], bool], make: Callable[[], P]) -> list[bool]:
    """Return whether the promise is kept before, while and after a bug is planted."""
    before = is_kept(scenario, make)
    with bug():
        meanwhile = is_kept(scenario, make)
    return [before, meanwhile, is_kept(scenario, make)]
