"""Planted bugs are taken out again."""

from contextlib import suppress

from dragoman.testing.bugs import BUGS, replaced


def test_there_are_enough_and_each_says_what_it_breaks() -> None:
    assert len(BUGS) >= 15
    assert all(plant.__doc__ for plant in BUGS.values())


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
