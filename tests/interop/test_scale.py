"""Thousands of peers on one broker: they stay connected, and their jobs get through."""

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import ROOT, until
from tests.interop.raw_nfp import RawClient

pytestmark = pytest.mark.scale

PEERS = int(os.environ.get("DRAGOMAN_SCALE_PEERS", "2000"))
PROCESSES = 4
#: Longer than a worker that is not heard would keep its place (15 s).
SECONDS = 25.0


def start_crowd(endpoint: str, number: int) -> "subprocess.Popen[str]":
    each = PEERS // PROCESSES
    arguments = ["-m", "tests.interop.scale_peers", endpoint, str(number * each), str(each)]
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def end_asking(crowds: "list[subprocess.Popen[str]]") -> list[dict[str, float]]:
    """Let the clients ask no more; return what each crowd saw. The workers are still there."""
    for crowd in crowds:
        assert crowd.stdin is not None
        crowd.stdin.write("stop\n")
        crowd.stdin.flush()
    return [json.loads(crowd.stdout.readline()) for crowd in crowds if crowd.stdout]


@pytest.mark.timeout(240)
def test_thousands_of_workers_and_clients_stay_connected_and_are_served(
    broker: StartBroker,
) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most < 3 * PEERS:
        pytest.skip(f"needs {3 * PEERS} open files a process, may have {most}")
    b = broker(settings="[ledger]\nseal = false\n")
    endpoint = b.endpoints["nfp"]
    process = psutil.Process(b.pid)
    before = process.memory_info().rss
    crowds = [start_crowd(endpoint, i) for i in range(PROCESSES)]
    try:
        with RawClient(endpoint, b"looking") as look:
            until(lambda: len(mine(look)) == PEERS, "all workers are registered", 60, every=0.5)
            begun, cpu = time.monotonic(), sum(process.cpu_times()[:2])
            time.sleep(SECONDS)
            used = (sum(process.cpu_times()[:2]) - cpu) / (time.monotonic() - begun)
            rows = mine(look)
            figures = end_asking(crowds)
            totals = look.manage("show_totals")
            clients = look.manage("list_clients")
        memory = process.memory_info().rss
    finally:
        for crowd in crowds:
            crowd.kill()
            crowd.communicate()
    total = {key: sum(f[key] for f in figures) for key in ("asked", "answered", "beats")}
    print(
        f"{PEERS} workers, {PEERS} clients: {total}, broker {used:.0%} of a core,"
        f" {memory / 1e6:.0f} MB ({(memory - before) / 2 / PEERS / 1e3:.1f} kB a peer),"
        f" p50 {max(f['p50'] for f in figures) * 1e3:.0f} ms,"
        f" p99 {max(f['p99'] for f in figures) * 1e3:.0f} ms"
    )
    assert len(rows) == PEERS
    assert all(row["status"] == "alive" for row in rows)
    assert not sum(f["dismissed"] for f in figures), "workers were lost and came back"
    assert not sum(f["failed"] for f in figures)
    assert total["answered"] == total["asked"] > PEERS
    assert total["beats"] > PEERS * SECONDS / 2.5 * 0.8
    assert totals["requeued"] == 0
    assert len(clients) >= PEERS
    assert memory - before < 400e6


def mine(look: RawClient) -> list[dict[str, Any]]:
    return [row for row in look.manage("list_workers") if row["dialect"] == "nfp"]
