"""A broker as a process: it recovers, serves, drains, and one ledger has one broker."""

import json
import threading
from pathlib import Path

import pytest

from dragoman import Client, Worker
from dragoman.ledger.base import LedgerError
from dragoman.server.server import management_names, write_ready_file
from dragoman.testing.harness import LocalBroker


def test_results_outlive_the_broker(tmp_path: Path) -> None:
    with LocalBroker(data=tmp_path) as broker:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
        worker.task(lambda x: x + 1, name="inc")
        with worker, Client(broker.url("nfp")) as client:
            job = client.submit("math", "inc", x=1)
            assert job.result(10) == 2
    with LocalBroker(data=tmp_path) as broker, Client(broker.url("nfp")) as client:
        assert client.job(job.id).result(10) == 2
        totals = client.call("mmi.service.broker", "show_totals", timeout=10)
        assert totals["succeeded"] == 1


def test_a_job_that_waits_when_the_broker_stops_is_run_after_its_restart(tmp_path: Path) -> None:
    with LocalBroker(data=tmp_path) as broker, Client(broker.url("nfp")) as client:
        job = client.submit("math", "inc", x=1, timeout=60)
        assert job.wait_until_acknowledged(10)
    with LocalBroker(data=tmp_path) as broker:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
        worker.task(lambda x: x + 1, name="inc")
        with worker, Client(broker.url("nfp")) as client:
            assert client.job(job.id).result(20) == 2


def test_two_brokers_never_share_a_ledger(tmp_path: Path) -> None:
    second = LocalBroker(data=tmp_path)
    with LocalBroker(data=tmp_path), pytest.raises(LedgerError, match=str(tmp_path)):
        second.__enter__()


def test_a_drain_lets_running_jobs_finish(tmp_path: Path) -> None:
    started, release = threading.Event(), threading.Event()
    broker = LocalBroker(data=tmp_path)
    with broker:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)

        @worker.task
        def slow() -> str:
            started.set()
            release.wait(10)
            return "done"

        with worker, Client(broker.url("nfp")) as client:
            job = client.submit("math", "slow")
            assert started.wait(10)
            stopping = threading.Thread(target=broker.stop)
            stopping.start()
            release.set()
            assert job.result(10) == "done"
            stopping.join(10)


def test_the_ready_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write_ready_file(path, {"nfp": "tcp://127.0.0.1:1"})
    assert json.loads(path.read_text()) == {"nfp": "tcp://127.0.0.1:1"}
    assert list(tmp_path.iterdir()) == [path]


def test_the_brokers_own_services_are_known_in_both_cases() -> None:
    names = management_names()
    assert "mmi.service.broker" in names
    assert "MMI.SERVICE.BROKER" in names
