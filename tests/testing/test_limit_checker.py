"""The checker of limits finds what exceeds them."""

import pytest

from dragoman.model.limit import Limit
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms
from dragoman.testing.limit_checker import LimitChecker


def started(job: str, at: float, task: str = "") -> Record:
    return Record(1, at, Kind.DISPATCHED, job, service="a", task=task)


def test_a_key_and_a_service_may_not_be_exceeded() -> None:
    checker, two = LimitChecker(), Terms(limit=Limit("k", concurrency=2))
    checker.start("p1", started("j1", 1.0), two)
    checker.start("p2", started("j2", 1.0), two)
    checker.end("p1")
    checker.start("p3", started("j3", 1.0), two)
    with pytest.raises(AssertionError, match="j4/0 starts although 2 run under the limit key k"):
        checker.start("p4", started("j4", 1.0), two)


def test_the_limit_of_a_task_is_its_own() -> None:
    checker = LimitChecker()
    detail = '{"concurrency":1}'
    checker.limited(Record(1, 1.0, Kind.LIMITED, service="a", task="t", detail=detail))
    checker.start("p1", started("j1", 1.0, "t"), Terms())
    checker.start("p2", started("j2", 1.0, "u"), Terms())
    with pytest.raises(AssertionError, match="limit a/t"):
        checker.start("p3", started("j3", 1.0, "t"), Terms())


def test_tokens_come_with_time() -> None:
    checker, slow = LimitChecker(), Terms(limit=Limit("k", rate=1, per=10.0))
    checker.start("p1", started("j1", 100.0), slow)
    checker.start("p2", started("j2", 110.0), slow)
    with pytest.raises(AssertionError, match="j3/0 starts without a token"):
        checker.start("p3", started("j3", 119.0), slow)
