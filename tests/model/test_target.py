"""Targets: parsing their text form returns them, because recovery reads it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.model.names import WorkerName
from dragoman.model.target import (
    ALL,
    ANY,
    Labelled,
    Named,
    OnResource,
    Target,
    parse_target,
)


def named(*names: str) -> Named:
    return Named(tuple(map(WorkerName, names)))


names = st.lists(st.text(min_size=1, max_size=8), max_size=4, unique=True)
targets: st.SearchStrategy[Target] = st.one_of(
    st.just(ANY),
    st.just(ALL),
    names.map(lambda each: named(*each)),
    names.map(lambda each: OnResource(tuple(each))),
    st.sampled_from(["", "gpu", "zone=eu, !spot", " cpus>4 "]).map(Labelled),
)


@given(targets)
@example(named("any"))
@example(named("all"))
@example(named("labels:gpu"))
@example(named("resource:r1", "names:"))
@example(named("a,b", " c ", "100%", "%2C"))
@example(named())
@example(OnResource(("rack 7", "a,b", "*")))
@example(OnResource(()))
def test_a_target_reads_back_from_its_text(target: Target) -> None:
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("", ANY),
        ("any", ANY),
        (" all ", ALL),
        ("a", named("a")),
        ("a, b ,a,", named("a", "b")),
        ("any,a", named("any", "a")),
        ("100%", named("100%")),
        ("names:any", named("any")),
        ("labels:zone=eu", Labelled("zone=eu")),
        ("resource:r1, rack-*", OnResource(("r1", "rack-*"))),
    ],
)
def test_the_text_form_reads_as_documented(text: str, target: Target) -> None:
    assert parse_target(text) == target


def test_ordinary_worker_names_are_written_plainly() -> None:
    assert str(named("w-1", "größe")) == "w-1,größe"


@pytest.mark.parametrize("text", [",", " , "])
def test_a_list_of_nobody_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no worker"):
        parse_target(text)


def test_a_bad_label_expression_is_refused_when_the_target_is_made() -> None:
    with pytest.raises(ValueError, match="zone="):
        parse_target("labels:zone=")


def test_a_labelled_target_knows_its_requirements() -> None:
    target = parse_target("labels:gpu, zone=eu")
    assert isinstance(target, Labelled)
    assert [each.key for each in target.requirements] == ["gpu", "zone"]


@given(st.text(max_size=30))
def test_any_text_is_a_target_or_a_value_error(text: str) -> None:
    try:
        target = parse_target(text)
    except ValueError:
        return
    assert parse_target(str(target)) == target
