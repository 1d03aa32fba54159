"""Values: cheap at run time, compared by content, frozen for the type checker."""

from pathlib import Path

import pytest
from mypy import api

from dragoman.model.value import field, value


@value
class Point:
    x: int
    y: int = 0
    tags: tuple[str, ...] = field(default_factory=tuple)


@value
class Line:
    end: Point
    start: Point = Point(0)


def test_values_compare_and_hash_by_content() -> None:
    assert Point(1, y=2) == Point(1, 2)
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_a_value_can_be_the_default_of_another() -> None:
    assert Line(Point(1)).start == Point(0)


def test_a_value_has_slots_and_so_takes_no_unknown_attribute() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined]  # the mistake is the test


def test_the_type_checker_rejects_assignment_to_a_field(tmp_path: Path) -> None:
    source = tmp_path / "assign.py"
    source.write_text(
        "from dragoman.model.value import value\n"
        "@value\nclass Point:\n    x: int\n"
        "def move(p: Point) -> None:\n    p.x = 2\n"
    )
    said, _, code = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(source)])
    assert code == 1
    assert 'Property "x" defined in "Point" is read-only' in said
