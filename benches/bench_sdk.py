"""What a job costs users of the SDK: CPU time of each party, rate, latency; by dialect.

Real processes: a broker with all dialects, `dragoman worker`s with 8 threads, `AsyncClient`s with
100 calls of `add(x, y)` in flight. Rates depend on the machine and its load; the CPU time of each
party per job is the figure to compare. A worker's figure includes its helper processes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import psutil

from dragoman.testing.fabric import Fabric

Row: TypeAlias = tuple[str, float, str]

SETTINGS = """
[services.relaxed]
durability = "relaxed"
[services.strict]
durability = "strict"
[ledger]
seal = false
"""
SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
IN_FLIGHT = 100
#: Dialect, service (named after its durability), clients, workers, calls in flight per client.
CASES = (
    ("nfp", "relaxed", 1, 1, IN_FLIGHT),
    ("nfp", "strict", 1, 1, IN_FLIGHT),
    ("dcp", "relaxed", 1, 1, IN_FLIGHT),
    ("zss", "relaxed", 1, 1, IN_FLIGHT),
    ("mdp", "relaxed", 1, 1, IN_FLIGHT),
    ("memo", "relaxed", 1, 1, IN_FLIGHT),
    ("http", "strict", 1, 1, IN_FLIGHT),
    ("http", "relaxed", 1, 1, IN_FLIGHT),
    ("nfp", "relaxed", 10, 4, IN_FLIGHT // 10),
    ("nfp", "strict", 10, 4, IN_FLIGHT // 10),
    ("nfp", "relaxed", 1, 1, 1),
    ("nfp", "strict", 1, 1, 1),
)


def run() -> list[Row]:
    """Measure every case, or those whose name contains `BENCH_ONLY`."""
    rows: list[Row] = []
    only = os.environ.get("BENCH_ONLY", "").split(",")
    for case in CASES:
        if any(part in case_name(*case) for part in only):
            rows += rows_of(case_name(*case), measure(*case))
    return rows


def case_name(dialect: str, service: str, clients: int, workers: int, in_flight: int) -> str:
    """Return the name of a case."""
    name = f"sdk: {dialect} {service}"
    if clients > 1:
        name += f", {clients} clients, {workers} workers"
    return f"{name}, one call at a time" if in_flight == 1 else name


def rows_of(name: str, found: dict[str, float]) -> list[Row]:
    """Return the rows of one case."""
    parties = ("broker", "worker", "client")
    rows = [(f"{name}: {each} CPU", found[each], "us/job") for each in parties]
    rows += [(f"{name}: CPU of all", sum(found[each] for each in parties), "us/job")]
    rows += [(name, found["rate"], "jobs/s")]
    if found["p50"]:
        rows += [(f"{name}: median latency", found["p50"], "us")]
    return rows


def measure(
    dialect: str, service: str, clients: int, workers: int, in_flight: int
) -> dict[str, float]:
    """Run one case; return CPU us per job of each party, rate and median latency."""
    with fabric_of(dialect, service, workers) as fabric:
        url = fabric.url(dialect)
        return load(fabric.broker_pid, url, service, clients, in_flight)


@contextmanager
def fabric_of(dialect: str, service: str, workers: int) -> Iterator[Fabric]:
    """Run a broker with workers of one service."""
    with TemporaryDirectory() as folder:
        fabric = Fabric(Path(folder), SETTINGS)
        try:
            fabric.start_broker()
            for number in range(workers):
                fabric.start_worker(dialect, service, f"bench-{number}")
            fabric.wait_for([service])
            yield fabric
        finally:
            fabric.stop()


def load(broker: int, url: str, service: str, clients: int, in_flight: int) -> dict[str, float]:
    """Have SDK clients call."""
    command = [sys.executable, "-m", "benches.sdk_client", url, service, str(in_flight)]
    return load_clients([*command, str(SECONDS)], broker, clients)


def load_clients(command: list[str], broker: int, clients: int = 1) -> dict[str, float]:
    """Run client processes; measure them, the broker and all other children of this process."""
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(clients)
    ]
    for client in running:
        assert client.stdout is not None
        if client.stdout.readline() != "ready\n":
            raise RuntimeError(f"the client ended with {client.wait()} before it was ready")
    others = _parties(broker, [client.pid for client in running])
    before = {party: _cpu(found) for party, found in others.items()}
    results = _results(running)
    jobs = sum(result["jobs"] for result in results)
    spent = {party: (_cpu(found) - before[party]) / jobs * 1e6 for party, found in others.items()}
    return spent | {
        "client": sum(result["cpu"] for result in results) / jobs * 1e6,
        "rate": sum(result["jobs"] / result["seconds"] for result in results),
        "p50": max(result["p50"] for result in results),
    }


def _results(running: "list[subprocess.Popen[str]]") -> list[dict[str, Any]]:
    for client in running:
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
    return [json.loads(client.communicate()[0]) for client in running]


def _parties(broker: int, clients: list[int]) -> dict[str, list[psutil.Process]]:
    """Return the processes of broker and workers; helper processes count with their parent."""
    children = psutil.Process().children()
    workers = [each for each in children if each.pid not in (broker, *clients)]
    helpers = [helper for each in workers for helper in each.children(recursive=True)]
    return {"broker": [psutil.Process(broker)], "worker": workers + helpers}


def _cpu(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        times = process.cpu_times()
        total += times.user + times.system
    return float(total)
