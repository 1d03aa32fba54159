"""What a link between brokers costs: CPU time of the brokers per job, and the rate of two of them.

Real processes. A job *stays* if client and worker are at one broker, and *crosses* if they are at
two. Then one broker with two clients and two workers, beside two linked brokers with one of each.
Rates depend on the machine and its load; the CPU time per job is the figure to compare.
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

from dragoman.testing.fabric import Fabric, free_port

Row: TypeAlias = tuple[str, float, str]

SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
IN_FLIGHT = 50
#: A job of these services waits for the disk, or does not.
SERVICES = ("strict", "relaxed")


def settings(name: str, listen: str = "off", dial: str = "") -> str:
    """Return the settings of one broker."""
    link = f'[mesh.other]\nurl = "mesh://{dial}"\n' if dial else ""
    terms = "".join(f'[services.{s}]\ndurability = "{s}"\n' for s in SERVICES)
    return f'name = "{name}"\n[listen]\nmesh = "{listen}"\n[ledger]\nseal = false\n{terms}{link}'


@contextmanager
def linked() -> Iterator[tuple[Fabric, Fabric]]:
    """Run two linked brokers."""
    address = f"127.0.0.1:{free_port()}"
    with TemporaryDirectory() as folder:
        west = Fabric(Path(folder, "west"), settings("west", f"tcp://{address}"))
        east = Fabric(Path(folder, "east"), settings("east", dial=address))
        try:
            west.start_broker()
            east.start_broker()
            yield west, east
        finally:
            east.stop()
            west.stop()


def run() -> list[Row]:
    """Measure CPU time per job of both brokers, and rates."""
    rows: list[Row] = []
    with linked() as (west, east):
        for service in SERVICES:
            east.start_worker("nfp", service, f"w-{service}")
            west.wait_for([service])
            stays = measure([east], [(east, service)])
            crosses = measure([west, east], [(west, service)])
            rows += [
                (f"{service}, stays: CPU of its broker", stays["west"], "us/job"),
                (f"{service}, crosses: CPU of the first broker", crosses["west"], "us/job"),
                (f"{service}, crosses: CPU of the next broker", crosses["east"], "us/job"),
                (f"{service}, stays", stays["rate"], "jobs/s"),
                (f"{service}, crosses", crosses["rate"], "jobs/s"),
            ]
    return rows + total_rates()


def total_rates() -> list[Row]:
    """Measure one broker with two clients and workers, beside two with one of each."""
    with linked() as (west, east):
        for number, broker in enumerate((west, west, east)):
            broker.start_worker("nfp", f"pair{number}", f"w-{number}")
            broker.wait_for([f"pair{number}"])
        one = measure([west], [(west, "pair0"), (west, "pair1")])
        two = measure([west, east], [(west, "pair0"), (east, "pair2")])
    return [
        ("one broker, two clients and workers", one["rate"], "jobs/s"),
        ("one broker, two clients and workers: CPU of the broker", one["west"], "us/job"),
        ("two linked brokers, a client and a worker each", two["rate"], "jobs/s"),
        (
            "two linked brokers, a client and a worker each: CPU of both",
            two["west"] + two["east"],
            "us/job",
        ),
    ]


def measure(brokers: list[Fabric], clients: list[tuple[Fabric, str]]) -> dict[str, float]:
    """Have clients call; return the rate, and CPU us per job of each broker (`west`, `east`)."""
    running = [start_client(broker.url("nfp"), service) for broker, service in clients]
    processes = [psutil.Process(broker.broker_pid) for broker in brokers]
    before = [cpu(process) for process in processes]
    results = [finish(client) for client in go(running)]
    jobs = sum(result["jobs"] for result in results)
    spent = [(cpu(p) - at) / jobs * 1e6 for p, at in zip(processes, before, strict=True)]
    rate = sum(result["jobs"] / result["seconds"] for result in results)
    return dict(zip(("west", "east"), spent, strict=False)) | {"rate": rate}


def start_client(url: str, service: str) -> "subprocess.Popen[str]":
    """Start a client and wait for the end of its warm-up."""
    command = [sys.executable, "-m", "benches.sdk_client", url, service, str(IN_FLIGHT)]
    client = subprocess.Popen(
        [*command, str(SECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    if client.stdout.readline() != "ready\n":
        raise RuntimeError(f"the client ended with {client.wait()} before it was ready")
    return client


def go(clients: "list[subprocess.Popen[str]]") -> "list[subprocess.Popen[str]]":
    """Let all clients begin."""
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
    return clients


def finish(client: "subprocess.Popen[str]") -> dict[str, Any]:
    """Return what a client measured."""
    found: dict[str, Any] = json.loads(client.communicate()[0])
    return found


def cpu(process: psutil.Process) -> float:
    """Return the CPU seconds of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)
