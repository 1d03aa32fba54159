"""What a bridge costs: the same call within one dialect and from one to another, in one run.

One broker with NFP and memo01, one worker process of each (`dragoman worker`), and our client in
this process. Durability is the same for all pairs, so only the body codec differs: within a dialect
bodies pass unchanged, between two they are decoded and encoded. Rates depend on peers and machine;
compare the broker's CPU time per call.
"""

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import psutil

from dragoman import Client
from dragoman.testing.fabric import Fabric

Row: TypeAlias = tuple[str, float, str]

PAIRS = (("nfp", "nfp"), ("memo", "memo"), ("nfp", "memo"), ("memo", "nfp"))
SETTINGS = """
[ledger]
seal = false
""" + "".join(
    f'[services.bench-{dialect}]\ndurability = "relaxed"\n' for dialect in ("nfp", "memo")
)
VALUE = {"text": "naïve", "numbers": list(range(20)), "nested": {"a": [True, None]}}


def run(seconds: float = 4.0) -> list[Row]:
    """Measure every pair; `seconds` is the time for each figure."""
    with TemporaryDirectory() as folder:
        fabric = Fabric(Path(folder), SETTINGS)
        try:
            fabric.start_broker()
            for dialect in ("nfp", "memo"):
                for number in range(4):
                    name = f"bench-{dialect}-{number}"
                    fabric.start_worker(dialect, f"bench-{dialect}", name)
            fabric.wait_for(["bench-nfp", "bench-memo"])
            found = {pair: measure(fabric, *pair, seconds) for pair in PAIRS}
        finally:
            fabric.stop()
    rows = [row for pair in PAIRS for row in _rows(pair, found[pair])]
    plain = (found["nfp", "nfp"]["cpu"] + found["memo", "memo"]["cpu"]) / 2
    bridged = found["nfp", "memo"]["cpu"]
    return [*rows, ("bridge: nfp to memo against the mean of both alone", bridged / plain, "times")]


def measure(fabric: Fabric, caller: str, worker: str, seconds: float) -> dict[str, float]:
    """Make sequential calls for the latency, then concurrent ones for rate and CPU time."""
    service, broker = f"bench-{worker}", psutil.Process(fabric.broker_pid)
    with Client(fabric.url(caller)) as client:
        list(client.map(service, "echo", calls(200), window=50, timeout=60))
        took = [_once(client, service) for _ in range(200)]
        before, begun, done = _cpu(broker), time.monotonic(), 0
        while time.monotonic() < begun + seconds:
            done += len(list(client.map(service, "echo", calls(500), window=100, timeout=60)))
        spent = time.monotonic() - begun
        used = _cpu(broker) - before
    return {"rate": done / spent, "cpu": used / done * 1e6, "p50": median(took) * 1000}


def calls(count: int) -> list[dict[str, Any]]:
    return [{"value": VALUE}] * count


def _once(client: Client, service: str) -> float:
    begun = time.perf_counter()
    assert client.call(service, "echo", value=VALUE, timeout=60) == VALUE
    return time.perf_counter() - begun


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _rows(pair: tuple[str, str], found: dict[str, float]) -> list[Row]:
    kind = "bridged" if pair[0] != pair[1] else "one dialect"
    name = f"bridge: {pair[0]} client, {pair[1]} worker ({kind})"
    return [
        (name, found["rate"], "calls/s"),
        (f"{name}: broker's CPU", found["cpu"], "us/call"),
        (f"{name}: one after the other", found["p50"], "ms"),
    ]
