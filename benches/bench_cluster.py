"""What a cluster costs: strict accepts beside one broker, and how long a take-over lasts.

Three nats-servers with JetStream (`sync_interval: always`) on the loopback, and brokers in
processes of their own. `accepts` are jobs that a majority has on disk and that are acknowledged,
from 200 clients at once. A take-over lasts from the signal to the leader until a strict job is
acknowledged by the next one; its clients learn the address at once.

    python -m benches cluster
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeAlias

import psutil
from benches.bench_nfp import SETTINGS, dragoman, load
from tests.nats_trio import NatsTrio

from dragoman import Client
from dragoman.testing.harness import LINKS

Row: TypeAlias = tuple[str, float, str]

ROUNDS = int(os.environ.get("ROUNDS", "5"))
_PATIENCE = 60.0


class BenchNode:
    """One broker; `leads` gets its endpoint each time it leads."""

    def __init__(self, name: str, folder: Path, urls: list[str]) -> None:
        self.name = name
        self.leads: queue.Queue[str] = queue.Queue()
        self._folder, self._urls = folder, urls
        self.start()

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, "-m", "benches.cluster_broker"]
        self.process = subprocess.Popen(
            [*command, self.name, str(self._folder), ",".join(self._urls)],
            stdout=subprocess.PIPE,
            stderr=(self._folder / f"{self.name}.log").open("a"),
            text=True,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("tcp://"):
                self.leads.put(line.strip())


@contextmanager
def cluster(names: str) -> Iterator[tuple[list[BenchNode], str]]:
    """Run three servers, and brokers on them; the first one leads: its endpoint."""
    others = "\n".join(f'{link} = "off"' for link in LINKS if link != "nfp")
    nodes: list[BenchNode] = []
    with TemporaryDirectory() as made, NatsTrio(Path(made)) as trio:
        config = SETTINGS.format(others=others, durability="strict")
        (Path(made) / "dragoman.toml").write_text(config)
        try:
            nodes.append(BenchNode(names[0], Path(made), trio.urls))
            endpoint = nodes[0].leads.get(timeout=_PATIENCE)
            nodes += [BenchNode(name, Path(made), trio.urls) for name in names[1:]]
            yield nodes, endpoint
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()


def run(seconds: float = 4.0) -> list[Row]:
    """Measure everything; `seconds` is the time for each rate."""
    rows: list[Row] = []
    with dragoman("strict") as (process, endpoints):
        rows += _accepts("one broker, SQLite", process, endpoints, seconds)
    with cluster("a") as ([leader], endpoint):
        process = psutil.Process(leader.process.pid)
        rows += _accepts("three replicas", process, (endpoint, endpoint), seconds)
    with cluster("ab") as (nodes, _):
        rows += _take_overs("kill -9 (aim 3 s)", nodes, signal.SIGKILL)
        rows += _take_overs("SIGTERM (aim 1 s)", nodes, signal.SIGTERM)
    return rows


def _accepts(
    what: str, process: psutil.Process, endpoints: tuple[str, str], seconds: float
) -> list[Row]:
    found = load(process, endpoints, "accepts", seconds)
    name = f"cluster: accepts of 200 clients, {what}"
    return [
        (name, found["rate"], "/s"),
        (f"{name}: CPU of the broker", found["cpu"], "us each"),
        (f"{name}: p50", found["p50"], "ms"),
        (f"{name}: p99", found["p99"], "ms"),
    ]


def _take_overs(what: str, nodes: list[BenchNode], which: signal.Signals) -> list[Row]:
    took = []
    for _ in range(ROUNDS):
        took.append(_take_over(nodes, which))
        nodes.reverse()
    name = f"cluster: take-over after {what}"
    return [(f"{name}, median", median(took), "s"), (f"{name}, worst", max(took), "s")]


def _take_over(nodes: list[BenchNode], which: signal.Signals) -> float:
    """End the leader (the first node); return the seconds until the other one acknowledges."""
    leader, standby = nodes
    time.sleep(3.0)  # the standby has started and follows
    begun = time.monotonic()
    leader.process.send_signal(which)
    endpoint = standby.leads.get(timeout=_PATIENCE)
    with Client(endpoint.replace("tcp://", "nfp://")) as client:
        assert client.submit("nobody", "task").wait_until_acknowledged(_PATIENCE)
    took = time.monotonic() - begun
    leader.process.wait(_PATIENCE)
    leader.start()
    return took


if __name__ == "__main__":
    for text, figure, unit in run():
        print(f"{text}: {figure:,.2f} {unit}")
