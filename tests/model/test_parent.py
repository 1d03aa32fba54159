"""The option `parent`, and ids of children."""

import pytest

from dragoman.model.parent import Parent, child_id, parent_members, read_parent


def test_a_parent_survives_its_message() -> None:
    parent = Parent("j1", 7)
    assert read_parent(parent_members(parent)) == parent


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("j1", "object"),
        ({"job": "j1"}, "object"),
        ({"job": "", "position": 1}, "id of 1"),
        ({"job": "x" * 257, "position": 1}, "id of 1"),
        ({"job": "j1", "position": 0}, "whole number"),
        ({"job": "j1", "position": True}, "whole number"),
        ({"job": "j1", "position": 1.0}, "whole number"),
    ],
)
def test_a_parent_that_cannot_be_read_says_why(given: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_parent(given)


def test_the_id_of_a_child_depends_on_parent_and_position() -> None:
    ids = {child_id(Parent(job, n), k) for job in ("j1", "j2") for n in (1, 2) for k in (0, 1)}
    assert len(ids) == 8
    assert child_id(Parent("j1", 1)) == child_id(Parent("j1", 1))
