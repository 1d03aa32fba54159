"""What an HTTP call costs: the broker's processor time, the rate and the latency.

One broker process, one NFP worker and one HTTP worker as processes of their own, and plain HTTP
connections without the SDK in this process. Each connection makes one call after the other.
Rates depend on the machine; the broker's processor time for each call is the figure to compare.
"""

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TypeAlias

import psutil
from benches.bench_walks import HttpCaller

from dragoman.testing.fabric import Fabric

Row: TypeAlias = tuple[str, float, str]

SETTINGS = "[ledger]\nseal = false\n"
CALLS = 1500
CONNECTIONS = 8
BODY = {"task": "echo", "kwargs": {"value": {"text": "naïve", "numbers": list(range(20))}}}


def run() -> list[Row]:
    """Measure calls to a worker of each dialect, and submissions."""
    with TemporaryDirectory() as folder:
        fabric = Fabric(Path(folder), SETTINGS)
        try:
            fabric.start_broker()
            for dialect in ("nfp", "http"):
                fabric.start_worker(dialect, f"bench-{dialect}", f"bench-{dialect}-1")
            fabric.wait_for(["bench-nfp", "bench-http"])
            rows = [
                *measure(fabric, "/v1/call", "nfp", 1),
                *measure(fabric, "/v1/call", "nfp", CONNECTIONS),
                *measure(fabric, "/v1/call", "http", CONNECTIONS),
                *measure(fabric, "/v1/jobs", "nfp", CONNECTIONS),
            ]
        finally:
            fabric.stop()
    return rows


def measure(fabric: Fabric, path: str, worker: str, connections: int) -> list[Row]:
    """Make `CALLS` requests over so many connections."""
    broker = psutil.Process(fabric.broker_pid)
    body = BODY | {"service": f"bench-{worker}"}
    _spread(fabric, path, body, connections, 200)
    before, begun = _cpu(broker), time.monotonic()
    took = _spread(fabric, path, body, connections, CALLS)
    spent, used = time.monotonic() - begun, _cpu(broker) - before
    name = f"http: {path}, {worker} worker, {connections} at a time"
    return [
        (f"{name}: broker's CPU", used / len(took) * 1e6, "us/call"),
        (name, len(took) / spent, "calls/s"),
        (f"{name}: median", median(took) * 1000, "ms"),
    ]


def _spread(
    fabric: Fabric, path: str, body: dict[str, Any], connections: int, calls: int
) -> list[float]:
    took: list[float] = []

    def one() -> None:
        caller = HttpCaller(fabric.url("http"))
        for _ in range(calls // connections):
            begun = time.perf_counter()
            caller.post(path, body)
            took.append(time.perf_counter() - begun)

    threads = [Thread(target=one) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
