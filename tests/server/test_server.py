"""A broker as a process: it recovers, serves, drains, and one ledger has one broker."""

import threading
from pathlib import Path

import pytest

from dragoman import Client, JobFailed, Worker
from dragoman.ledger.base import LedgerError
from dragoman.testing.harness import LocalBroker

MMI = "mmi.service.broker"


def test_results_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
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


def logged(client: Client) -> list[str]:
    """Return the log; nothing if the restart interrupted this question."""
    try:
        return [line["message"] for line in client.call(MMI, "get_logs", timeout=20)]
    except JobFailed:
        return []


@pytest.mark.process
def test_a_restart_keeps_every_acknowledged_job_and_every_port() -> None:
    with LocalBroker("nfp", "dcp") as broker, Client(broker.url("nfp")) as client:
        before = dict(broker.endpoints)
        job = client.submit("math", "inc", x=1, timeout=60)
        assert job.wait_until_acknowledged(10)
        assert client.call(MMI, "restart", timeout=10) == {"status": "restarting"}
        while "restarting in the same process" not in logged(client):
            assert not job.is_done
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
        worker.task(lambda x: x + 1, name="inc")
        with worker:
            assert job.result(30) == 2
        assert broker.endpoints == before


@pytest.mark.process
def test_a_shutdown_asked_for_over_the_wire_drains_with_its_own_deadline() -> None:
    started, release = threading.Event(), threading.Event()
    with LocalBroker() as broker, Client(broker.url("nfp")) as client:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)

        @worker.task
        def slow() -> str:
            started.set()
            release.wait(10)
            return "done"

        with worker:
            job = client.submit("math", "slow", timeout=60)
            assert started.wait(10)
            assert client.call(MMI, "shutdown", timeout=30)["status"] == "shutting down"
            with pytest.raises(JobFailed, match="draining"):
                client.call("math", "slow", timeout=10)
            release.set()
            assert job.result(20) == "done"
            broker.until_stopped(20)


@pytest.mark.process
def test_disconnected_workers_come_back_when_they_have_finished() -> None:
    with LocalBroker() as broker, Client(broker.url("nfp")) as client:
        worker = Worker(broker.url("nfp"), service="math", name="w1", own_process_beats=False)
        worker.task(lambda x: x + 1, name="inc")
        with worker:
            assert client.call("math", "inc", x=1, timeout=10) == 2
            assert client.call(MMI, "disconnect", worker="w1", timeout=10)["workers"] == ["w1"]
            assert client.call("math", "inc", x=1, timeout=20) == 2
            assert client.call(MMI, "disconnect", at_once=True, timeout=10)["workers"] == ["w1"]
            assert client.call("math", "inc", x=1, timeout=20) == 2
        with pytest.raises(JobFailed, match="nobody"):
            client.call(MMI, "disconnect", worker="nobody", timeout=10)


def test_a_broken_inventory_stops_the_start_and_names_file_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "inventory.yaml").write_text("workers:\n  a: [\n")
    broker = LocalBroker(data=tmp_path, inventory_path=folder)
    with pytest.raises(ValueError, match=r"inventory.yaml, line 3"):
        broker.__enter__()
