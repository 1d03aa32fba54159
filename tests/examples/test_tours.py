"""The examples run, as their pages say."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from examples.chain.tour import tour as chain
from examples.compute_node.tour import tour as compute_nodes
from examples.events.serve import make_server
from examples.memoised.tour import tour as memoised
from examples.ten_lines import tasks

from dragoman import Client, Worker
from dragoman.testing.harness import LocalBroker

ROOT = Path(__file__).parents[2]


@pytest.mark.process
def test_a_worker_and_a_client_in_ten_lines() -> None:
    with LocalBroker("nfp", "zss", "zss_backend") as broker:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
        worker.task(tasks.add)
        with worker:
            done = subprocess.run(
                [sys.executable, "-m", "examples.ten_lines.client", broker.url("zss")],
                capture_output=True,
                text=True,
                cwd=ROOT,
                timeout=50,
                check=True,
            )
    assert done.stdout == "5\n"


@pytest.mark.process
def test_work_passes_from_service_to_service_across_dialects() -> None:
    with LocalBroker("nfp", "dcp", "zss", "zss_backend") as broker:
        said = chain(broker.url("dcp"), broker.url("zss", for_workers=True), broker.url("nfp"))
    assert said == "kept 4 words"


@pytest.mark.process
def test_a_memoised_function_runs_once() -> None:
    with LocalBroker("nfp", services={"slow": {"memoize": True}}) as broker:
        assert memoised(broker.url("nfp")) == (144, 1)


@pytest.mark.interop
def test_a_norfab_fabric_moves_by_two_lines_of_its_inventory(tmp_path: Path) -> None:
    folder = tmp_path / "norfab"
    shutil.copytree(ROOT / "examples" / "norfab", folder)
    inventory = folder / "inventory.yaml"
    with LocalBroker("nfp", "http") as broker:
        there = inventory.read_text().replace("tcp://127.0.0.1:5555", broker.endpoints["nfp"])
        inventory.write_text(there)
        words = ["-m", "examples.norfab.tour", str(inventory), broker.endpoints["http"]]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, timeout=55
        )
    assert done.returncode == 0, done.stderr
    said = "acme 4.2 in zurich"
    assert json.loads(done.stdout) == {
        "everybody": {"switches-1": said, "switches-2": said},
        "any": "other 4.2 in zurich",
        "over http": "http 4.2 in zurich",
    }


@pytest.mark.interop
def test_compute_nodes_work_for_clients_of_another_dialect() -> None:
    with LocalBroker("nfp", "nats") as broker:
        nats = broker.endpoints["nats"].replace("tcp://", "ncl://")
        found = compute_nodes(nats, broker.url("nfp"))
    assert [each["frame"] for each in found] == [0, 1, 2, 3]
    assert found[3]["rendered in"] == "us"


@pytest.mark.process
def test_a_web_page_gets_events_and_resumes_where_it_was() -> None:
    with LocalBroker("nfp", "http") as broker:
        worker = Worker(broker.url("nfp"), service="math", own_process_beats=False)
        worker.task(tasks.add)
        server = make_server(broker.endpoints["http"])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{server.server_address[1]}"
        assert b"EventSource" in urlopen(f"{page}/", timeout=20).read()
        with worker, Client(broker.url("nfp")) as client:
            client.call("math", "add", x=2, y=3, timeout=20)
            everything = Request(f"{page}/events", headers={"Last-Event-ID": "1"})
            first = events(everything, 3)
            rest = Request(f"{page}/events", headers={"Last-Event-ID": first[1][0]})
            assert events(rest, 1) == first[2:]
        server.shutdown()
        server.server_close()
    assert [topic for _, topic in first] == [
        "broker.submitted",
        "broker.dispatched",
        "broker.ended",
    ]


def events(asked: Request, count: int) -> list[tuple[str, str]]:
    """Read some events: their ids and topics."""
    found: list[tuple[str, str]] = []
    last = ""
    with urlopen(asked, timeout=20) as stream:
        while len(found) < count:
            name, _, text = stream.readline().decode().strip().partition(": ")
            if name == "id":
                last = text
            elif name == "event":
                found.append((last, text))
    return found
