"""What a cluster costs: strict accepts beside one broker, and how long a take-over lasts.

Three nats-servers with JetStream (`sync_interval: always`) on the loopback, and brokers in
processes of their own. `accepts` are jobs that a majority has on disk and that are acknowledged,
from 200 clients at once. Plain publishes are messages of 300 bytes to a stream on the same
servers, each acknowledged by the majority, with one and with 200 under way. Disk is what finished
jobs add to a node: its SQLite copy, and its part of the stream with the logs of the replication.
A take-over lasts from the signal to the leader until a strict job is acknowledged by the next one;
its clients learn the address at once.

    python -m benches cluster
"""

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeAlias

import nats
import psutil
from benches.bench_nfp import SETTINGS, dragoman, load
from nats.js.api import StreamConfig
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
def cluster(names: str) -> Iterator[tuple[list[BenchNode], str, NatsTrio, Path]]:
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
            yield nodes, endpoint, trio, Path(made)
        finally:
            for node in nodes:
                node.process.kill()
                node.process.wait()


def run(seconds: float = 4.0) -> list[Row]:
    """Measure everything; `seconds` is the time for each rate."""
    rows: list[Row] = []
    with dragoman("strict") as (process, endpoints):
        rows += _accepts("one broker, SQLite", process, endpoints, seconds)
    with cluster("a") as ([leader], endpoint, trio, folder):
        process = psutil.Process(leader.process.pid)
        rows += _accepts("three replicas", process, (endpoint, endpoint), seconds)
        rows += asyncio.run(_publishes(trio.urls, seconds))
        rows += _disk(process, (endpoint, endpoint), folder, seconds)
    with cluster("ab") as (nodes, _, trio, _):
        rows += _take_overs("kill -9 (aim 3 s)", nodes, signal.SIGKILL)
        rows += _take_overs("SIGTERM (aim 1 s)", nodes, signal.SIGTERM)
        rows += _double_faults(nodes, trio)
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


async def _publishes(urls: list[str], seconds: float) -> list[Row]:
    """Publish to a stream of its own on the same servers."""
    client = await nats.connect(urls)
    context = client.jetstream(timeout=30)
    await context.add_stream(StreamConfig(name="PLAIN", subjects=["plain"], num_replicas=3))
    rows: list[Row] = []
    for under_way in (1, 200):
        until, counts = time.monotonic() + seconds, [0] * under_way

        async def publish(number: int, until: float = until, counts: list[int] = counts) -> None:
            while time.monotonic() < until:
                await context.publish("plain", bytes(300))
                counts[number] += 1

        await asyncio.gather(*(publish(number) for number in range(under_way)))
        name = f"cluster: plain JetStream publishes, {under_way} under way"
        rows.append((name, sum(counts) / seconds, "/s"))
    await client.close()
    return rows


def _disk(
    process: psutil.Process, endpoints: tuple[str, str], folder: Path, seconds: float
) -> list[Row]:
    """Finish jobs; return what each of them added to the disk of a node."""
    places = {"SQLite copy": folder / "a", "stream and its logs": folder / "n0" / "store"}
    before = {name: _size(place) for name, place in places.items()}
    jobs = load(process, endpoints, "pipelined", seconds)["requests"]
    return [
        (f"cluster: disk of a node, {name}", (_size(place) - before[name]) / jobs, "bytes a job")
        for name, place in places.items()
    ]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _double_faults(nodes: list[BenchNode], trio: NatsTrio) -> list[Row]:
    """Kill the leading broker and the server that leads the stream at the same moment."""
    took = []
    for _ in range(ROUNDS):
        number = asyncio.run(_stream_leader(trio.urls))
        took.append(_take_over(nodes, signal.SIGKILL, partial(trio.kill, number)))
        trio.start(number)
        nodes.reverse()
        time.sleep(3.0)  # the server is back among the others
    name = "cluster: take-over after kill -9 of broker and stream leader (aim 10 s)"
    return [(f"{name}, median", median(took), "s"), (f"{name}, worst", max(took), "s")]


async def _stream_leader(urls: list[str]) -> int:
    client = await nats.connect(urls)
    info = await client.jetstream(timeout=30).stream_info("BENCH")
    await client.close()
    assert info.cluster is not None
    assert info.cluster.leader is not None
    return int(info.cluster.leader.removeprefix("n"))


def _take_overs(what: str, nodes: list[BenchNode], which: signal.Signals) -> list[Row]:
    took = []
    for _ in range(ROUNDS):
        took.append(_take_over(nodes, which))
        nodes.reverse()
    name = f"cluster: take-over after {what}"
    return [(f"{name}, median", median(took), "s"), (f"{name}, worst", max(took), "s")]


def _take_over(
    nodes: list[BenchNode], which: signal.Signals, also: Callable[[], None] = lambda: None
) -> float:
    """End the leader (the first node); return the seconds until the other one acknowledges."""
    leader, standby = nodes
    time.sleep(3.0)  # the standby has started and follows
    begun = time.monotonic()
    leader.process.send_signal(which)
    also()
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
