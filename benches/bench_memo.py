"""What memo01 costs: jobs through a real broker beside a bare echo of the same transport.

Every figure comes from separate processes on this machine: `dragoman up` (or an echo), and peers
that make load: NNG's own (`pynng`), and ones with their own SP codec (`raw`). The first show the
cost of peers in Python, the second the limit of the broker. A job is two requests and two answers,
an echo one of each.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import psutil

Row: TypeAlias = tuple[str, float, str]

#: (workers, clients)
SIZES = ((1, 1), (8, 16), (64, 256), (1000, 500))
PARKED = 5000
PEERS = ("raw", "pynng")


def run(seconds: float = 3.0, sizes: tuple[tuple[int, int], ...] = SIZES) -> list[Row]:
    """Measure everything; `seconds` is the time for each figure."""
    rows: list[Row] = []
    for peers in PEERS:
        for workers, clients in sizes:
            with broker() as endpoint:
                jobs, job_cpu = load(peers, endpoint, workers, clients, seconds)
            with echo("sp") as endpoint:
                echoed, echo_cpu = load(peers, endpoint, 0, clients, seconds)
            name = f"memo: {peers} peers, {workers} workers, {clients} clients"
            rows += [
                (name, jobs, "jobs/s"),
                (f"{name}: broker's CPU", job_cpu, "us/job"),
                (f"memo: {peers} peers, bare echo, {clients} clients", echoed, "echoes/s"),
                (f"memo: {peers} peers, bare echo, {clients} clients: CPU", echo_cpu, "us/echo"),
            ]
    rows += [*compare_repliers(seconds), *memory()]
    return rows


def compare_repliers(seconds: float = 3.0) -> list[Row]:
    """Echo through pynng's contexts and through our replier, under the same load."""
    rows = []
    for clients in (1, 64, 1024):
        for kind, name in (("sp", "SP on asyncio"), ("pynng", "pynng, 256 contexts")):
            with echo(kind) as endpoint:
                rate, cpu = load("raw", endpoint, 0, clients, seconds)
            rows += [
                (f"memo: echo by {name}, {clients} in flight", rate, "echoes/s"),
                (f"memo: echo by {name}, {clients} in flight: CPU", cpu, "us/echo"),
            ]
    return rows


def memory(many: int = PARKED) -> list[Row]:
    """Return the memory growth of a broker per parked request."""
    with broker() as endpoint:
        process = _listener(endpoint)
        before = process.memory_info().rss
        with _started("park", endpoint, str(many)) as peers:
            assert peers.stdout is not None
            peers.stdout.readline()
            after = _settled(process)
        return [
            (f"memo: memory for {many} parked requests", (after - before) / 1e6, "MB"),
            ("memo: the same, for each", (after - before) / many, "bytes"),
        ]


def _listener(endpoint: str) -> psutil.Process:
    port = int(endpoint.rpartition(":")[2])
    for process in psutil.Process().children(recursive=True):
        if any(c.laddr.port == port for c in process.net_connections() if c.status == "LISTEN"):
            return process
    raise RuntimeError(f"nobody listens on {endpoint}")


def _settled(process: psutil.Process) -> int:
    """Wait until a process is idle; return its memory."""
    while True:
        used = process.cpu_times().user
        time.sleep(1.0)
        if process.cpu_times().user - used < 0.05:
            return int(process.memory_info().rss)


def load(
    peers: str, endpoint: str, workers: int, clients: int, seconds: float
) -> tuple[float, float]:
    """Return how many answers the clients got in a second, and the CPU time for each (us)."""
    server = _listener(endpoint)
    before = _cpu(server)
    command = [sys.executable, "-m", "benches.memo_peers", peers, endpoint]
    done = subprocess.run(
        [*command, str(workers), str(clients), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    rate, total = done.stdout.split()
    return float(rate), (_cpu(server) - before) / max(1, int(total)) * 1e6


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def echo(kind: str) -> Iterator[str]:
    """Run a bare echo."""
    with _started("echo", kind) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


@contextmanager
def _started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benches.memo_peers", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def broker() -> Iterator[str]:
    """Run a broker that listens for memo01 only.

    It does not export segments: loading pyarrow would take longer than one measurement.
    """
    with TemporaryDirectory(prefix="bench-memo-") as folder:
        config, ready = Path(folder) / "dragoman.toml", Path(folder) / "ready.json"
        config.write_text(
            "[listen]\n"
            + "".join(f'{name} = "off"\n' for name in _other_links())
            + 'memo = "tcp://127.0.0.1:0"\n'
            + "[ledger]\nseal = false\n"
        )
        dragoman = str(Path(sys.executable).with_name("dragoman"))
        files = ["--config", str(config), "--data", folder, "--ready-file", str(ready)]
        process = subprocess.Popen([dragoman, "up", "--log-level", "error", *files])
        try:
            while not ready.exists():
                time.sleep(0.02)
                assert process.poll() is None, "the broker did not start"
            yield json.loads(ready.read_text())["memo"]
        finally:
            process.kill()
            process.wait()


def _other_links() -> list[str]:
    from dragoman.server.settings import Listen

    return [name for name in Listen.model_fields if name != "memo"]


if __name__ == "__main__":
    for name, figure, unit in run():
        print(f"{name:65} {figure:12,.0f} {unit}")
