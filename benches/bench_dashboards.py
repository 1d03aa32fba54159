"""What open dashboards cost the broker: CPU of its process for each call, 2,000 workers connected.

A dashboard is what its page does: one live stream, and its list again every three seconds. The
lists of the twenty are jobs, workers, services and the overview, five pages each. Both measurements
are of one broker, one after the other, twice; the figure is the ratio of the sums.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import psutil

from dragoman import Client, Worker

WORKERS = 2000
DASHBOARDS = 20
SECONDS = 8.0
LISTS = (
    "/v1/history/jobs?limit=50",
    "/v1/overview/workers?limit=100",
    "/v1/overview/services",
    "/v1/overview",
)


def run() -> list[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        broker, endpoints = start(Path(folder))
        try:
            return measure(psutil.Process(broker.pid), endpoints)
        finally:
            broker.terminate()
            broker.wait(30)


def start(folder: Path) -> tuple["subprocess.Popen[bytes]", dict[str, str]]:
    config = folder / "dragoman.toml"
    # The idle workers only register: nobody beats for them.
    config.write_text("[http]\nbeat_every = 3600.0\nmissed_allowed = 10\n[ledger]\nseal = false\n")
    ready = folder / "ready"
    program = "from dragoman.cli.main import main; main()"
    off = [f"--{name}=off" for name in ("dcp", "zss", "zss-backend", "memo", "nats", "mdp")]
    command = [sys.executable, "-c", program, "up", "--config", str(config), *off]
    command += ["--data", str(folder / "data"), "--ready-file", str(ready)]
    command += ["--nfp", "tcp://127.0.0.1:0", "--http", "tcp://127.0.0.1:0"]
    broker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not ready.exists():
        time.sleep(0.05)
    return broker, json.loads(ready.read_text())


def measure(broker: psutil.Process, endpoints: dict[str, str]) -> list[tuple[str, float, str]]:
    base = endpoints["http"]
    for number in range(WORKERS):
        post(f"{base}/v1/workers", {"services": [f"idle{number % 50}"]})
    worker = Worker(f"nfp://{endpoints['nfp'].partition('//')[2]}", service="math")

    @worker.task
    def add(x: int, y: int) -> int:
        return x + y

    alone, watched, idle = [0.0, 0], [0.0, 0], 0.0
    with worker, Client(f"nfp://{endpoints['nfp'].partition('//')[2]}") as client:
        calls(broker, client, 2.0)
        for _ in range(2):
            add_up(alone, calls(broker, client, SECONDS))
            stop = threading.Event()
            pages = [dashboard(base, n, stop) for n in range(DASHBOARDS)]
            add_up(watched, calls(broker, client, SECONDS))
            before = cpu(broker)
            time.sleep(SECONDS / 2)
            idle += (cpu(broker) - before) / SECONDS * 2
            stop.set()
            for page in pages:
                page.join()
    one, other = 1e6 * alone[0] / alone[1], 1e6 * watched[0] / watched[1]
    return [
        ("broker CPU a call, no dashboard", one, "us"),
        (f"broker CPU a call, {DASHBOARDS} dashboards", other, "us"),
        ("calls a second while watched", watched[1] / (2 * SECONDS), "/s"),
        ("rise", 100 * (other / one - 1), "%"),
        (f"broker CPU of {DASHBOARDS} dashboards without calls", 100 * idle / 2, "% of a core"),
    ]


def add_up(total: list[float], found: tuple[float, int]) -> None:
    total[0] += found[0]
    total[1] += found[1]


def calls(broker: psutil.Process, client: Client, seconds: float) -> tuple[float, int]:
    """Call for some seconds, 50 at a time; return the broker's CPU seconds and the calls."""
    end, before, done = time.monotonic() + seconds, cpu(broker), 0
    while time.monotonic() < end:
        jobs = [client.submit("math", "add", x=1, y=2) for _ in range(50)]
        for job in jobs:
            job.result(timeout=30)
        done += len(jobs)
    return cpu(broker) - before, done


def cpu(broker: psutil.Process) -> float:
    times = broker.cpu_times()
    return float(times.user + times.system)


def dashboard(base: str, number: int, stop: threading.Event) -> threading.Thread:
    """Open a dashboard: its live stream, and its list every three seconds."""

    def page() -> None:
        with urllib.request.urlopen(f"{base}/v1/overview/live", timeout=30) as stream:
            last = 0.0
            while not stop.is_set() and stream.readline():
                if time.monotonic() - last > 3.0:
                    last = time.monotonic()
                    urllib.request.urlopen(base + LISTS[number % len(LISTS)], timeout=30).read()

    thread = threading.Thread(target=page, daemon=True)
    thread.start()
    return thread


def post(url: str, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    data = json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        answer.read()


if __name__ == "__main__":
    print(os.getpid(), run())
