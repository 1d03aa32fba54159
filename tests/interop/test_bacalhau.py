"""Both directions with a real Bacalhau: our worker on its orchestrator, its node on our broker.

Needs Go for the build, so it runs only by `make interop-bacalhau`.
"""

import os
from pathlib import Path

import pytest
from tests.interop.bacalhau import BINARY, compute_node, orchestrator, wait_until
from tests.interop.conftest import StartBroker
from tests.interop.harness import Fleet
from tests.interop.ncl_workers import start_worker
from tests.interop.test_ncl_interop import LINKS, SHORT

from dragoman import Client, JobFailed

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BINARY, reason="no Bacalhau binary; run `make interop-bacalhau`"),
]

#: Jobs of the burst: more than eight slots and fewer than the queue.
BURST = int(os.environ.get("BACALHAU_JOBS", "100"))


def test_our_worker_serves_a_real_orchestrator(fleet: Fleet, tmp_path: Path) -> None:
    with orchestrator(tmp_path / "bacalhau") as (bacalhau, nats):
        start_worker(fleet, nats)
        node = wait_until(lambda: bacalhau.nodes().get("w-1"), "our node has joined")
        assert node["Connection"] == "CONNECTED"
        job = bacalhau.submit("greet", "Ada")
        assert bacalhau.ended(job) == "Completed"
        (execution,) = bacalhau.executions(job)
        assert execution["RunOutput"]["Stdout"] == "hello Ada\nAda"
        assert execution["RunOutput"]["stderr"] == "careful\n"
        assert bacalhau.ended(bacalhau.submit("broken")) == "Failed"

        running = bacalhau.submit("patient", 300)
        wait_until(lambda: bacalhau.state(running) == "Running", "the job runs")
        bacalhau.send("DELETE", f"/api/v1/orchestrator/jobs/{running}")
        assert bacalhau.ended(running) == "Stopped"

        burst = [bacalhau.submit("add", x=number) for number in range(BURST)]
        assert {bacalhau.ended(name, 300) for name in burst} == {"Completed"}


def test_either_side_may_be_killed(fleet: Fleet, tmp_path: Path) -> None:
    with orchestrator(tmp_path / "bacalhau") as (bacalhau, nats):
        worker = start_worker(fleet, nats)
        assert bacalhau.ended(bacalhau.submit("add", x=1)) == "Completed"
        worker.kill()
        start_worker(fleet, nats)
        assert bacalhau.ended(bacalhau.submit("add", x=2)) == "Completed"
        bacalhau.kill()
        bacalhau.start()
        wait_until(
            lambda: bacalhau.nodes().get("w-1", {}).get("Connection") == "CONNECTED",
            "our node is back",
        )
        assert bacalhau.ended(bacalhau.submit("add", x=3)) == "Completed"


def test_a_real_node_joins_our_broker(broker: StartBroker, tmp_path: Path) -> None:
    links = {**LINKS, "http": "127.0.0.1:0"}
    b = broker(links, SHORT.replace("disconnect_timeout = 3.0", "disconnect_timeout = 40.0"))
    with compute_node(tmp_path / "bacalhau", b.endpoints["nats"]), Client(b.url("http")) as client:

        def connected() -> list[dict[str, object]]:
            rows = client.call("mmi.service.broker", "list_nodes", timeout=10)
            return [row for row in rows if row["status"] == "connected"]

        (row,) = wait_until(connected, "the real node has joined")
        assert "wasm" in row["services"]
        # It bids, is told to run, and reports that there is no module to run.
        with pytest.raises(JobFailed):
            client.call("wasm", "", timeout=60, EntryModule="none.wasm")
        b.kill()
        b.start()
        wait_until(connected, "the real node is back")
