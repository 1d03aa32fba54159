"""Unique keys: how they are read and written."""

import json

import pytest

from dragoman.model.unique import Unique, read_unique, unique_members


@pytest.mark.parametrize(
    "unique", [Unique("k"), Unique("k", until="start", period=3.0), Unique("k", quiet=5)]
)
def test_what_is_written_is_read_again(unique: Unique) -> None:
    members = unique_members(unique)
    assert read_unique(members) == read_unique(json.dumps(members)) == unique


def test_a_key_alone_is_enough() -> None:
    assert read_unique("report:42") == Unique("report:42", until="end")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (3, "must be a key"),
        ("", "1 to 200 printable"),
        ({}, "name a key"),
        ({"key": 3}, "key must be text"),
        ({"key": "k", "until": "later"}, "until must be start or end"),
        ({"key": "k", "period": "5"}, "period must be a number"),
        ({"key": "k", "quiet": True}, "quiet must be a number"),
        ({"key": "k", "quiet": -1}, "0 s to a day"),
        ({"key": "k", "quiet": 1, "period": 1}, "either period or quiet"),
        ({"key": "k", "colour": 1}, "no member 'colour'"),
        ("{nonsense", "Expecting"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: object, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        read_unique(given)
