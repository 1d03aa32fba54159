"""Stories about promises: each is told in a place of its own, and says whether it was kept."""

from collections.abc import Callable
from typing import TypeVar

from dragoman.testing.bugs.planting import Bug

#: Where a story happens: a broker on its stage, or a simulated server.
P = TypeVar("P")


def is_kept(story: Callable[[P], bool], place: Callable[[], P]) -> bool:
    """Tell a story; a broker whose invariants do not hold has not kept its promise either."""
    try:
        return story(place())
    except AssertionError:
        return False


def around(bug: Bug, story: Callable[[P], bool], place: Callable[[], P]) -> list[bool]:
    """Say whether a promise is kept before a bug is planted, while it is in, and afterwards."""
    before = is_kept(story, place)
    with bug():
        meanwhile = is_kept(story, place)
    return [before, meanwhile, is_kept(story, place)]
