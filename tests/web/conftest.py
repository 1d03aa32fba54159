"""One broker per module, with HTTP and an NFP worker."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.web.caller import Caller

from dragoman import Worker
from dragoman.testing.harness import LocalBroker

#: Short enough that a lost worker and a dead stream are noticed within a test.
HTTP: dict[str, Any] = {
    "beat_every": 0.5,
    "missed_allowed": 4,
    "heartbeat": 0.3,
    "header_timeout": 1.0,
    "body_timeout": 1.0,
    "max_body": 4 * 1024 * 1024,
    "stream_window": 50,
    "patience": 5.0,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", http=HTTP, ledger={"seal": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def caller(broker: LocalBroker) -> Caller:
    return Caller(broker.endpoints["http"])


@pytest.fixture(scope="module")
def math(broker: LocalBroker) -> Iterator[Worker]:
    worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)

    @worker.task
    def add(x: int, y: int) -> int:
        return x + y

    @worker.task
    def fail() -> None:
        raise ValueError("out of luck")

    @worker.task
    def wait_to_be_stopped(job: Any) -> None:
        while not job.is_cancelled:
            threading.Event().wait(0.02)

    @worker.fallback
    def reverse(raw: bytes) -> bytes:
        return raw[::-1]

    with worker:
        yield worker
