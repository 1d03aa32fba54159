"""A broker and a worker for the whole SDK suite."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import TaskFailed, Worker
from dragoman.sdk.context import JobContext
from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "dcp") as running:
        yield running


@pytest.fixture(scope="session")
def worker(broker: LocalBroker) -> Iterator[Worker]:
    worker = Worker(broker.url("nfp"), service="math", name="w1", own_process_beats=False)

    @worker.task
    def add(x: int, y: int = 0) -> int:
        return x + y

    @worker.task
    def refuse() -> None:
        raise TaskFailed("not today")

    @worker.task
    def steps(job: JobContext, n: int) -> str:
        for i in range(n):
            job.progress({"step": i})
        job.stream(b"piece")
        return "stepped"

    @worker.task
    def confirm(job: JobContext) -> Any:
        return job.ask("proceed?", timeout=20)

    @worker.task
    def until_cancelled(job: JobContext) -> str:
        stopped = threading.Event()
        while not job.is_cancelled:
            stopped.wait(0.01)
        return "stopped"

    @worker.task
    async def later(x: int) -> int:
        return x

    with worker:
        yield worker


@pytest.fixture
def url(broker: LocalBroker, worker: Worker) -> str:
    return broker.url("nfp")
