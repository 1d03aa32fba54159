"""A broker with a service that counts its work, and the suite's Spark session."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.conftest import SMALL

from dragoman import TaskFailed, Worker
from dragoman.pipeline.session import open_session
from dragoman.spark.executor_connection import close_connections
from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("local[2]", memory="1g", settings=SMALL)
    yield session
    session.stop()


class Score:
    """A service that remembers what it was asked, and can be made to wait."""

    def __init__(self) -> None:
        self.asked: Counter[Any] = Counter()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def double(self, x: int) -> int:
        """Return twice as much."""
        self.asked[x] += 1
        self.may_answer.wait(30)
        return 2 * x

    def picky(self, x: int) -> int:
        """Fail on odd numbers."""
        self.asked[x] += 1
        if x % 2:
            raise TaskFailed(f"{x} is odd")
        return x

    def many(self, rows: list[dict[str, int]]) -> list[int]:
        """Double several rows in one call."""
        self.asked[len(rows)] += 1
        return [2 * row["x"] for row in rows]

    def say(self, what: Any = None) -> Any:
        """Return what was said."""
        self.asked["say"] += 1
        return what


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "dcp", "http") as running:
        yield running
        close_connections()


@pytest.fixture
def score(broker: LocalBroker, request: pytest.FixtureRequest) -> Iterator[Score]:
    """A service named as the test, so that tests do not share it."""
    score = Score()
    worker = Worker(broker.url("nfp"), service_of(request), own_process_beats=False)
    for task in (score.double, score.picky, score.many, score.say):
        worker.task(task)
    with worker:
        yield score


def service_of(request: pytest.FixtureRequest) -> str:
    return f"score-{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def service(request: pytest.FixtureRequest) -> str:
    return service_of(request)
