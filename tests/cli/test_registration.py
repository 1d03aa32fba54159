"""A worker says that it is registered, or why it is not yet."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.sdk.test_diagnosis import unused_port

from dragoman import Worker
from dragoman.cli.registration import report_registration
from dragoman.sdk.url import parse_url
from dragoman.testing.harness import LocalBroker


class UnregisteredWorker:
    """A worker whose broker confirms it after some looks."""

    name = "w1"

    def __init__(self, url: str, looks: int) -> None:
        self.endpoint = parse_url(url)
        self._looks = looks

    @property
    def is_registered(self) -> bool:
        self._looks -= 1
        return self._looks < 0


def test_a_worker_without_a_broker_says_where_nothing_listens() -> None:
    port = unused_port()
    worker: Any = UnregisteredWorker(f"nfp://127.0.0.1:{port}", 5)
    with capture_logs() as logs:
        asyncio.run(report_registration(worker, 0.0))
    first, *_, last = logs
    assert first["event"] == "not registered yet"
    assert first["reason"].startswith(f"nothing listens at 127.0.0.1:{port}")
    assert last == {
        "event": "registered",
        "worker": "w1",
        "broker": f"nfp://127.0.0.1:{port}",
        "log_level": "info",
    }


@pytest.mark.process
def test_a_registered_worker_says_only_that() -> None:
    with LocalBroker("nfp") as broker:
        worker = Worker(broker.url("nfp"), service="s", own_process_beats=False)
        worker.task(lambda: 1, name="one")
        with worker, capture_logs() as logs:
            asyncio.run(report_registration(worker))
    assert [line["event"] for line in logs] == ["registered"]
