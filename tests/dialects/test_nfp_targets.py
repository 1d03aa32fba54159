"""Target frames, in both forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.nfp.targets import asked_names, only_name, read_target, write_target
from dragoman.model.names import WorkerName
from dragoman.model.target import ALL, ANY, Labelled, Named, OnResource, Target


def named(*names: str) -> Named:
    return Named(tuple(map(WorkerName, names)))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("any", ANY),
        ("all", ALL),
        ("w1", named("w1")),
        ("w1, w2,w1", named("w1", "w2")),
        ('["w1","w2","w1"]', named("w1", "w2")),
        ('["a,b"]', named("a,b")),
        ("labels:zone=eu", Labelled("zone=eu")),
        ("resource:r1,r2", OnResource(("r1", "r2"))),
    ],
)
def test_both_forms_are_accepted(text: str, target: Target) -> None:
    assert read_target(text, is_binary=False) == target
    assert read_target(text, is_binary=True) == target


def test_empty_means_all_only_in_the_text() -> None:
    assert read_target(" ", is_binary=True) == ALL
    with pytest.raises(ValueError, match="empty"):
        read_target(" ", is_binary=False)


@pytest.mark.parametrize("text", ["[]", "[1]", "[", '["a"', "[null]", ","])
def test_an_empty_or_bad_list_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r".{10}"):
        read_target(text, is_binary=False)


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
def test_names_read_back_whatever_is_in_them(names: list[str]) -> None:
    target = named(*names)
    assert read_target(write_target(target).decode(), is_binary=False) == target


def test_other_targets_are_written_as_text() -> None:
    assert write_target(ANY) == b"any"
    assert write_target(Labelled("gpu")) == b"labels:gpu"


def test_the_workers_that_a_get_or_put_names() -> None:
    assert asked_names('["w1","w2"]') == ("w1", "w2")
    assert asked_names("all") == asked_names("") == asked_names("[broken") == ()
    assert (only_name("w1"), only_name("w1,w2"), only_name("any")) == ("w1", "", "")
