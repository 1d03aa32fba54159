"""Signatures, chains, groups and chords: what they are as workflows."""

from typing import Any

import pytest

from dragoman import Chain, Group, Step
from dragoman.compat.celery import Celery, chain, chord, group
from dragoman.compat.hints import NotInCompat

app = Celery("canvas")


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


def test_a_chain_and_a_chord_are_plans() -> None:
    step = Step("celery", "add", 1, 2)
    assert chain(add.s(1, 2), add.s(3) | add.si(4, 5)).plan() == Chain(
        step, Step("celery", "add", 3), Step("celery", "add", 4, 5).alone()
    )
    header = group(add.s(1, 2), add.s(1, 2))
    assert chord(header, add.s(3)).plan() == Chain(Group(step, step), Step("celery", "add", 3))


def test_options_of_a_signature_reach_its_step() -> None:
    plan: Any = add.s(1, 2).set(countdown=3, queue="other", priority=5).plan()
    assert plan == Step("other", "add", 1, 2).with_options(delay=3.0, priority=5.0)
    with pytest.raises(NotInCompat, match="'expires' in a chain"):
        chain(add.s(1, 2).set(expires=3)).plan()


def test_more_arguments_come_first_unless_it_is_immutable() -> None:
    assert add.s(2).clone((1,)).args == (1, 2)
    assert add.si(2).clone((1,)).args == (2,)
    assert add.s(2)(1) == 3
    assert [each.args for each in group(add.s(1), add.s(2)).with_args((9,), {}).tasks] == [  # type: ignore[attr-defined]
        (9, 1),
        (9, 2),
    ]


def test_what_is_no_signature_is_refused() -> None:
    with pytest.raises(TypeError, match="no signature"):
        chain(add.s(1, 2), 3)
    with pytest.raises(TypeError, match="no signature"):
        group(7)
    with pytest.raises(ValueError, match="needs a task"):
        chain([])
    with pytest.raises(NotInCompat, match=r"first \| then"):
        add.s(1).link(add.s(2))
    with pytest.raises(NotInCompat, match="on_failure"):
        add.s(1).on_error(add.s(2))
