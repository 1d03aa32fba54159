"""Terms: what differs from the defaults, written as text and parsed again."""

import json
from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.limit import Limit, limit_members
from dragoman.model.parent import Parent
from dragoman.model.retry import Retry, retry_members
from dragoman.model.terms import BALANCES, Terms, _terms_text, read_terms, terms_text
from dragoman.model.unique import Unique, unique_members

spans = st.floats(0, 1e9)
limits = st.none() | spans
capacities = st.builds(
    Capacity,
    cpu=st.floats(0, 1e6),
    memory=st.integers(0, 2**50),
    disk=st.integers(0, 2**60),
    gpu=st.integers(0, 64),
    slots=st.integers(0, 1000),
)
retries = st.builds(
    Retry,
    times=st.integers(0, 1000),
    backoff=st.floats(0, 1000),
    factor=st.floats(1, 100),
    jitter=st.floats(0, 1),
    on=st.lists(st.text(max_size=8), max_size=3).map(tuple),
)
all_terms = st.builds(
    Terms,
    patience=limits,
    queue_timeout=limits,
    run_timeout=limits,
    timeout=limits,
    max_attempts=st.integers(1, 100),
    backoff=spans,
    priority=st.integers(-1000, 1000),
    balance=st.sampled_from(BALANCES),
    needs=capacities,
    strict=st.booleans(),
    cancel_grace=spans,
    memoize=st.booleans(),
    retry=st.none() | retries,
    unique=st.none() | st.just(Unique("k", quiet=2.0)),
    limit=st.none() | st.just(Limit("k", 1, 2.5, 3.0, 4)),
    delay=spans,
    not_before=spans,
    result_ttl=limits,
)

#: A value for each field that is not its default.
OTHER = {
    "patience": 0.0,
    "queue_timeout": 1.5,
    "run_timeout": 2.5,
    "timeout": 3.5,
    "max_attempts": 1,
    "backoff": 0.25,
    "priority": 9,
    "balance": "round_robin",
    "weight": 4,
    "needs": Capacity(cpu=0.5, gpu=1),
    "strict": False,
    "cancel_grace": 1.0,
    "memoize": True,
    "retry": Retry(3, 0.5),
    "limit": Limit("user:42", 2),
    "unique": Unique("report", until="start", period=5.0),
    "delay": 2.0,
    "not_before": 1e9,
    "result_ttl": 60.0,
    "webhook": "https://hooks.example.org/",
    "origin": "schedule nightly",
    "path": ("west", "east"),
}


@given(all_terms)
def test_terms_read_back_from_their_text(terms: Terms) -> None:
    assert read_terms(terms_text(terms)) == terms


def test_the_defaults_need_no_text() -> None:
    assert terms_text(Terms()) == ""
    assert read_terms("") == Terms()


def test_the_table_below_covers_every_field() -> None:
    assert {*OTHER, "parent"} == {f.name for f in fields(Terms)}


def test_the_parent_has_fields_of_the_record_instead() -> None:
    assert terms_text(Terms(parent=Parent("j1", 1))) == ""


@pytest.mark.parametrize("name", OTHER)
def test_each_field_is_written_when_it_differs_and_only_then(name: str) -> None:
    text = terms_text(read_terms(json.dumps({name: _plain(OTHER[name])})))
    assert list(json.loads(text)) == [name]
    assert getattr(read_terms(text), name) == OTHER[name]


def _plain(said: object) -> object:
    if isinstance(said, Capacity):
        return {f.name: getattr(said, f.name) for f in fields(Capacity)}
    if isinstance(said, Unique):
        return unique_members(said)
    if isinstance(said, Limit):
        return limit_members(said)
    return retry_members(said) if isinstance(said, Retry) else said


def test_members_from_a_newer_version_are_left_out() -> None:
    text = '{"priority":4,"colour":"blue","needs":{"cpu":2.0,"tpu":8}}'
    assert read_terms(text) == Terms(priority=4, needs=Capacity(cpu=2.0))


def test_no_limit_is_kept_apart_from_the_default() -> None:
    assert read_terms(terms_text(Terms(patience=None))).patience is None


@given(all_terms, all_terms)
def test_equal_terms_have_equal_hashes(one: Terms, other: Terms) -> None:
    assert hash(one) == hash(read_terms(terms_text(one)))
    assert one != other or hash(one) == hash(other)


def test_a_job_needs_nothing_unless_it_says_so() -> None:
    assert Terms().needs == NOTHING


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Terms(parent=Parent("p", n)),
        lambda n: Terms(delay=float(n)),
        lambda n: Terms(not_before=1e9 + n),
        lambda n: Terms(webhook=f"https://hooks.example/{n}"),
        lambda n: Terms(origin=f"job {n}"),
        lambda n: Terms(unique=Unique(f"key {n}")),
        lambda n: Terms(limit=Limit(f"key {n}", 1)),
        lambda n: Terms(timeout=float(n)),
    ],
)
def test_terms_of_many_jobs_do_not_collide_in_a_cache(make: Callable[[int], Terms]) -> None:
    assert len({hash(make(n)) for n in range(1, 1001)}) > 990


def test_children_of_one_parent_share_the_text_of_their_terms() -> None:
    before = _terms_text.cache_info().misses
    texts = {terms_text(Terms(timeout=12.5, parent=Parent("p", n))) for n in range(1, 101)}
    assert texts == {'{"timeout":12.5}'}
    assert _terms_text.cache_info().misses <= before + 1
