"""DCP and ZSS with raw peers: our broker beside the published npm broker, in one run.

One process makes the load: a client with a number of requests open, and one worker that echoes.
Sequential is one open request, pipelined a hundred. The npm broker is measured if its packages are
installed (`make setup` installs them).
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import psutil
import zmq

from dragoman.dialects.listeners import LISTENERS

Row: TypeAlias = tuple[str, float, str]
Frames: TypeAlias = list[bytes]

SECONDS: Final = 3.0
NODE: Final = Path(__file__).parent.parent / "tests" / "interop" / "node"
LINKS: Final = tuple(each.name.replace("_", "-") for each in LISTENERS)
ADDRESS: Final = b"\x83\xa3sid\xa5BENCH\xa8sversion\xa1*\xa4verb\xa4ECHO"
SMI_UP: Final = b"\x83\xa3sid\xa3SMI\xa8sversion\xa1*\xa4verb\xa2UP"


class Dialect:
    """The requests and answers of one dialect, as handmade frames."""

    name: str
    join: Frames
    ask: Callable[[bytes], Frames]
    answer: Callable[[Frames], Frames | None]


class Dcp(Dialect):
    name = "dcp"
    join = [b"", b"DGBX\x01", b"\x01", b"bench"]

    @staticmethod
    def ask(number: bytes) -> Frames:
        return [b"", b"DGBX\x01", b"\x04", b"bench", b"", number, b"", b"x" * 100]

    @staticmethod
    def answer(frames: Frames) -> Frames | None:
        if frames[2] != b"\x04":
            return None
        return [b"", b"DGBX\x01", b"\x05", *frames[4:]]


class Zss(Dialect):
    name = "zss"
    join = [b"ZSS:0.0", b"REQ", b"r", SMI_UP, b"\x80", b"", b"\xa5BENCH"]

    @staticmethod
    def ask(number: bytes) -> Frames:
        return [b"ZSS:0.0", b"REQ", number, ADDRESS, b"\x80", b"", b"\xa1x"]

    @staticmethod
    def answer(frames: Frames) -> Frames | None:
        if len(frames) != 8 or frames[2] != b"REQ":
            return None
        return [*frames[:2], b"REP", *frames[3:6], b"200", frames[7]]


def run() -> list[Row]:
    """Measure both dialects on our broker, and ZSS on the published one."""
    rows: list[Row] = []
    with ours() as (pid, endpoints):
        rows += _measure(Dcp(), endpoints["dcp"], endpoints["dcp"], pid, "dragoman")
        rows += _measure(Zss(), endpoints["zss"], endpoints["zss_backend"], pid, "dragoman")
    if (NODE / "node_modules").is_dir() and shutil.which("node"):
        with npm_broker() as (pid, front, back):
            rows += _measure(Zss(), front, back, pid, "npm broker")
    return rows


def _measure(dialect: Dialect, front: str, back: str, pid: int, who: str) -> list[Row]:
    rows: list[Row] = []
    for window, mode in ((1, "sequential"), (100, "100 in flight")):
        before = _cpu(pid)
        done, took = _load(dialect, front, back, window)
        name = f"{dialect.name}, {who}, {mode}"
        rows.append((name, done / SECONDS, "requests/s"))
        rows.append((f"{name}: CPU of the broker", (_cpu(pid) - before) / max(done, 1) * 1e6, "us"))
        took.sort()
        rows.append((f"{name}: p50", took[len(took) // 2] * 1e3, "ms"))
        rows.append((f"{name}: p99", took[int(len(took) * 0.99)] * 1e3, "ms"))
    return rows


def _load(dialect: Dialect, front: str, back: str, window: int) -> tuple[int, list[float]]:
    """Keep `window` requests open for a while; return the number of answers and latencies."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    worker, client = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    for peer, endpoint in ((worker, back), (client, front)):
        peer.setsockopt(zmq.IDENTITY, f"BENCH#{os.urandom(4).hex()}".encode())
        peer.setsockopt(zmq.LINGER, 0)
        peer.connect(endpoint)
    name = worker.getsockopt(zmq.IDENTITY)
    assert isinstance(name, bytes)
    worker.send_multipart([name, *dialect.join] if dialect.name == "zss" else dialect.join)
    worker.recv_multipart()
    poller = zmq.Poller()
    poller.register(worker, zmq.POLLIN)
    poller.register(client, zmq.POLLIN)
    took, sent_at = _exchange(dialect, poller, worker, client, window)
    assert took, f"{dialect.name}: nothing was answered; {len(sent_at)} were asked"
    for peer in (worker, client):
        peer.close()
    context.term()
    return len(took), took


def _exchange(
    dialect: Dialect,
    poller: zmq.Poller,
    worker: "zmq.Socket[bytes]",
    client: "zmq.Socket[bytes]",
    window: int,
) -> tuple[list[float], list[float]]:
    took: list[float] = []
    sent_at: list[float] = []

    def ask() -> None:
        client.send_multipart(dialect.ask(b"%036d" % len(sent_at)))
        sent_at.append(time.perf_counter())

    for _ in range(window):
        ask()
    until = time.perf_counter() + SECONDS
    pinged = time.perf_counter()
    while (now := time.perf_counter()) < until:
        for peer, _ in poller.poll(100):
            while True:
                try:
                    frames = peer.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                if peer is worker:
                    answer = dialect.answer(frames)
                    if answer is not None:
                        worker.send_multipart(answer)
                else:
                    number = frames[2] if dialect.name == "zss" else frames[5]
                    took.append(time.perf_counter() - sent_at[int(number)])
                    ask()
        if dialect.name == "dcp" and now - pinged > 0.5:
            worker.send_multipart([b"", b"DGBX\x01", b"\x02"])
            pinged = now
    return took, sent_at


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextmanager
def ours() -> Iterator[tuple[int, dict[str, str]]]:
    """Run `dragoman up` on free ports."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        words = [
            "up",
            "--data",
            f"{folder}/data",
            "--ready-file",
            str(ready),
            "--log-level",
            "error",
        ]
        for link in LINKS:
            words += [f"--{link}", "127.0.0.1:0" if link.startswith(("dcp", "zss")) else "off"]
        command = [sys.executable, "-c", "from dragoman.cli.main import main; main()", *words]
        process = subprocess.Popen(command)
        try:
            while not ready.exists():
                assert process.poll() is None, "the broker did not start"
                time.sleep(0.02)
            yield process.pid, json.loads(ready.read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


@contextmanager
def npm_broker() -> Iterator[tuple[int, str, str]]:
    """Run the published broker without its output."""
    front, back = (f"tcp://127.0.0.1:{_port()}" for _ in range(2))
    code = (
        "const B=require('zmq-service-suite-broker');"
        "new B({frontend:process.argv[1],backend:process.argv[2],"
        "smi:{heartbeat:100000,maxTTL:200000,updateInterval:500}}).run();"
    )
    process = subprocess.Popen(
        ["node", "--no-deprecation", "-e", code, front, back],
        cwd=NODE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.pid, front, back
    finally:
        process.terminate()
        process.wait()


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
