"""Times in text, and wake-up times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.ncl.models import NO_TIME
from dragoman.dialects.ncl.times import WakeTimes, time_of, time_text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, NO_TIME),
        (1767323045.678901, "2026-01-02T03:04:05.678901Z"),
        (1767323045.0, "2026-01-02T03:04:05Z"),
    ],
)
def test_instants_are_written_as_the_wire_writes_them(at: float, text: str) -> None:
    assert time_text(at) == text
    assert time_of(text) == pytest.approx(at)


def test_nanoseconds_and_offsets_are_read() -> None:
    at = time_of("2026-01-02T04:04:05.678901234+01:00")
    assert at == pytest.approx(1767323045.678901)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-99-01T00:00:00Z", "9" * 50])
def test_what_cannot_be_read_is_the_zero_time(text: str) -> None:
    assert time_of(text) == 0.0


@given(st.floats(1, 4e9))
def test_any_instant_survives_to_the_microsecond(at: float) -> None:
    assert time_of(time_text(at)) == pytest.approx(at, abs=2e-6)


def test_the_earliest_time_counts() -> None:
    alarms = WakeTimes()
    alarms.set("a", 10)
    alarms.set("a", 5)
    alarms.set("a", 7)
    alarms.set("b", 6)
    alarms.set("c", None)
    assert alarms.next() == 5
    assert alarms.due(6) == ["a", "b"]
    assert alarms.due(100) == []
    assert alarms.next() is None


def test_a_thing_may_be_set_again_when_it_was_due() -> None:
    alarms = WakeTimes()
    alarms.set("a", 1)
    assert alarms.due(1) == ["a"]
    alarms.set("a", 3)
    assert alarms.next() == 3
