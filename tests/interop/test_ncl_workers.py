"""Our workers as compute nodes on our broker; NATS may go away meanwhile."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, until
from tests.interop.ncl_workers import own_nats, start_worker
from tests.interop.test_ncl_interop import LINKS, SHORT

from dragoman import Client, JobFailed
from dragoman.dialects.peer_sides import Progress

pytestmark = pytest.mark.interop


def until_there(broker: Broker, name: str = "w-1") -> Client:
    """Return a client that sees a worker of the service."""
    client = Client(broker.url("nfp"))

    def is_there() -> bool:
        return bool(client.call("probe", "add", x=1, y=1, timeout=20) == 2)

    until(is_there, f"{name} works")
    return client


def test_an_nfp_client_uses_our_node(broker: StartBroker, fleet: Fleet) -> None:
    b = broker(LINKS, SHORT)
    start_worker(fleet, b.endpoints["nats"])
    with until_there(b) as client:
        assert client.call("probe", "add", x=2, y=3, timeout=20) == 5
        with pytest.raises(JobFailed, match="broken on purpose"):
            client.call("probe", "broken", timeout=20)
        job = client.submit("probe", "steps", n=3)
        reports = [e.event for e in job.events() if isinstance(e, Progress)]
        assert [r for r in reports if isinstance(r, dict) and "step" in r] == [
            {"step": 0},
            {"step": 1},
            {"step": 2},
        ]
        assert job.result(timeout=20) == 3


def test_work_for_all_reaches_every_node(broker: StartBroker, fleet: Fleet) -> None:
    b = broker(LINKS, SHORT)
    for name in ("w-1", "w-2"):
        start_worker(fleet, b.endpoints["nats"], name)
    with until_there(b) as client:

        def answers() -> Any:
            return client.call("probe", "add", x=1, y=1, target="all", timeout=20)

        until(lambda: answers() == {"w-1": 2, "w-2": 2}, "both answer", every=0.2)


def test_a_cancel_stops_the_task(broker: StartBroker, fleet: Fleet) -> None:
    b = broker(LINKS, SHORT)
    start_worker(fleet, b.endpoints["nats"])
    with until_there(b) as client:
        job = client.submit("probe", "patient", seconds=30)
        until(lambda: client.call("probe", "add", x=1, timeout=20) == 1, "it runs beside others")
        job.cancel()
        with pytest.raises(Exception, match="cancel"):
            job.result(timeout=20)


def test_a_killed_broker_runs_nothing_twice(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    b = broker(LINKS, SHORT)
    notes = tmp_path / "notes"
    notes.touch()
    start_worker(fleet, b.endpoints["nats"], env={"TASKS_LOG": str(notes)})
    with until_there(b) as client:
        job = client.submit("probe", "noted", seconds=2.0)
        until(lambda: notes.read_text(), "the task has begun")
        b.kill()
        b.start()
        assert int(job.result(timeout=40)) > 0
    assert notes.read_text().count("ran") == 1


def test_a_killed_node_s_work_goes_to_another(
    broker: StartBroker, fleet: Fleet, tmp_path: Path
) -> None:
    b = broker(LINKS, SHORT.replace("grace = 4.0", "grace = 0.5"))
    notes = tmp_path / "notes"
    notes.touch()
    env = {"TASKS_LOG": str(notes)}
    first = start_worker(fleet, b.endpoints["nats"], "w-1", env=env)
    with until_there(b) as client:
        job = client.submit("probe", "noted", seconds=3.0)
        until(lambda: notes.read_text(), "the task has begun")
        start_worker(fleet, b.endpoints["nats"], "w-2", env=env)
        first.kill()
        assert int(job.result(timeout=40)) != first.pid
    assert notes.read_text().count("ran") == 2


def test_a_clean_stop_of_a_node_drains_it(broker: StartBroker, fleet: Fleet) -> None:
    b = broker(LINKS, SHORT)
    worker = start_worker(fleet, b.endpoints["nats"])
    with until_there(b) as client:
        job = client.submit("probe", "slow", seconds=1.0)
        until(lambda: client.call("probe", "add", x=1, timeout=20) == 1, "it is taken")
        worker.signal(signal.SIGTERM)
        assert job.result(timeout=20) == 1.0
    assert worker.wait() == 0


@pytest.mark.parametrize("away", [1.0, 5.0])
def test_an_outage_of_nats_loses_nothing(
    broker: StartBroker, fleet: Fleet, tmp_path: Path, away: float
) -> None:
    """Shorter, then longer, than the disconnect timeout of 3 s."""
    notes = tmp_path / "notes"
    notes.touch()
    with own_nats(tmp_path / "nats") as nats:
        links = {"nfp": "127.0.0.1:0", "nats": nats.server.url}
        b = broker(links, SHORT.replace("grace = 4.0", "grace = 20.0"))
        start_worker(fleet, nats.server.url, env={"TASKS_LOG": str(notes)})
        with until_there(b) as client:
            job = client.submit("probe", "noted", seconds=away / 2)
            until(lambda: notes.read_text(), "the task has begun")
            nats.stop()
            asyncio.run(asyncio.sleep(away))
            nats.start()
            assert int(job.result(timeout=40)) > 0
            assert client.call("probe", "add", x=2, y=2, timeout=20) == 4
    assert notes.read_text().count("ran") == 1
