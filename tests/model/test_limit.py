"""Limits: what they allow, and how they are read and written."""

import json

import pytest

from dragoman.model.limit import Limit, limit_members, limit_text, read_limit, read_members


def test_a_bucket_gives_a_burst_and_then_one_token_each_period() -> None:
    limit = Limit("user:42", rate=2, per=10)
    full_at, now = 0.0, 100.0
    starts = []
    for _ in range(4):
        now = max(now, limit.next_token(full_at))
        starts.append(now)
        full_at = limit.spend(full_at, now)
    assert starts == [100.0, 100.0, 105.0, 110.0]


def test_after_a_quiet_time_there_is_one_burst_and_no_more() -> None:
    limit = Limit("k", rate=1, burst=3)
    full_at = limit.spend(0.0, 100.0)
    assert limit.next_token(full_at) < 100.0
    for _ in range(3):
        full_at = limit.spend(full_at, 500.0)
    assert limit.next_token(full_at) == 501.0


def test_a_slow_rate_gives_one_job_at_a_time() -> None:
    limit = Limit("k", rate=0.5)
    assert limit.next_token(limit.spend(0.0, 10.0)) == 12.0


@pytest.mark.parametrize(
    "limit", [Limit("user:42", concurrency=2), Limit("k", 1, 10, 60.0, 3), Limit("", 4)]
)
def test_what_is_written_is_read_again(limit: Limit) -> None:
    assert read_members(json.loads(limit_text(limit))) == limit
    if limit.key:
        assert read_limit(limit_text(limit)) == read_limit(limit_members(limit)) == limit


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (3, "must be an object"),
        ({"key": "k"}, "concurrency or rate"),
        ({"concurrency": 2}, "needs a key"),
        ({"key": "k", "concurrency": "2"}, "concurrency must be a number"),
        ({"key": "k", "concurrency": True}, "concurrency must be a number"),
        ({"key": 42, "concurrency": 2}, "key must be text"),
        ({"key": "k", "most": 2}, "no member 'most'"),
        ({"key": "k\n", "concurrency": 2}, "printable"),
        ({"key": "k" * 201, "concurrency": 2}, "200 characters"),
        ({"key": "k", "rate": 1, "per": 0}, "per must be"),
        ("nonsense", "Expecting value"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: object, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        read_limit(given)


def test_a_limit_says_what_it_allows() -> None:
    assert str(Limit("k", 2)) == "2 at a time"
    assert str(Limit("k", 2, rate=5)) == "2 at a time, 5 a second"
    assert str(Limit("k", rate=10, per=60)) == "10 in 60 s"
