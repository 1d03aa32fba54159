"""Planted bugs are listed and removed again."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from dragoman.testing.bugs import BUGS, THEMES
from dragoman.testing.bugs.planting import Bugs, replaced


def test_there_are_enough_and_each_says_what_it_breaks() -> None:
    assert len(BUGS) >= 15
    assert all(plant.__doc__ for plant in BUGS.values())


def test_the_bugs_of_every_theme_are_on_the_list_and_no_two_share_a_name() -> None:
    assert all(theme.BUGS and theme.BUGS.items() <= BUGS.items() for theme in THEMES)
    assert len(BUGS) == sum(len(theme.BUGS) for theme in THEMES)


def test_a_bug_is_listed_under_its_own_name_and_can_be_planted_more_than_once() -> None:
    bugs = Bugs()
    planted: list[str] = []

    @bugs.add
    def worm() -> Iterator[None]:
        planted.append("in")
        yield
        planted.append("out")

    assert bugs == {"worm": worm}
    for _ in range(2):
        with bugs["worm"]():
            assert planted[-1] == "in"
    assert planted == ["in", "out"] * 2


def test_what_was_replaced_is_put_back_whatever_happens() -> None:
    class Owner:
        name = "old"

    table = {"name": "old"}
    with suppress(ZeroDivisionError), replaced(Owner, "name", "new"):
        assert Owner.name == "new"
        raise ZeroDivisionError
    with replaced(table, "name", "new"):
        assert table == {"name": "new"}
    assert (Owner.name, table) == ("old", {"name": "old"})


def test_only_what_is_there_can_be_replaced() -> None:
    class Owner:
        pass

    with pytest.raises(KeyError), replaced(Owner, "nmae", "new"):
        pass
    with pytest.raises(KeyError), replaced({}, "nmae", "new"):
        pass
    assert not hasattr(Owner, "nmae")
