"""Mutations of messages."""

from random import Random

import pytest

from dragoman.testing.fuzz.mutations import ODD, Mutator

FRAMES = [b"one", b"two", b"", b"four"]


def test_the_same_seed_mutates_the_same_way() -> None:
    one, two = (Mutator(Random(5)) for _ in range(2))
    assert [one.frames(FRAMES) for _ in range(200)] == [two.frames(FRAMES) for _ in range(200)]


def test_frames_are_dropped_doubled_swapped_cut_and_mutated() -> None:
    found = [Mutator(Random(seed)).frames(FRAMES) for seed in range(300)]
    lengths = {len(frames) for frames in found}
    assert {0, 3, 5} <= lengths
    assert max(lengths) > 8
    assert any(sorted(f) == sorted(FRAMES) and f != FRAMES for f in found)
    assert FRAMES == [b"one", b"two", b"", b"four"]


@pytest.mark.parametrize("data", [b"", b"x", b"some bytes to mutate"])
def test_bytes_of_any_length_can_be_mutated(data: bytes) -> None:
    found = {Mutator(Random(seed)).mutate(data) for seed in range(200)}
    assert len(found) > 5
    assert all(isinstance(each, bytes) for each in found)


def test_other_types_come_into_values_at_any_depth() -> None:
    fields = {"a": [1, {"b": "text"}], "c": 2}
    found = [Mutator(Random(seed)).value(fields) for seed in range(300)]
    assert any(each in ODD for each in found if not isinstance(each, dict | float))
    assert any(isinstance(each, dict) and each.get("c") is None for each in found)
    assert any(isinstance(each, dict) and not isinstance(each.get("a"), list) for each in found)
    assert fields == {"a": [1, {"b": "text"}], "c": 2}
