"""Dragoman beside other task systems: the same task, calls in flight and machine, in one run.

Each system has an environment of its own (below `build/peers`), made at the first run. nats-server
comes with Dragoman; Redis comes from the system, and is installed with apt-get where this runs as
root. What cannot run is named in the table. Every system has one client with 100 calls of
`add(x, y)` in flight and one worker process with 8 threads (or coroutines). `on disk` says whether
a job is on disk (fsync) before its client is told that it was taken. Two smaller tables follow, of
NATS and Dragoman alone: ten clients with ten calls each and four workers, and one call at a time.
"""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from benches.bench_sdk import IN_FLIGHT, SECONDS, Row, load_clients, measure

from dragoman.testing.fabric import free_port
from dragoman.transports.nats_server import find_binary

HOME = Path(__file__).parents[1] / "build" / "peers"
PROGRAM = str(Path(__file__).with_name("peer_systems.py"))
#: Package, server, and whether an accepted job is on disk.
SYSTEMS = {
    "nats": ("nats-py", "nats", "never"),
    "jetstream": ("nats-py", "jetstream", "yes"),
    "dramatiq": ("dramatiq[redis]", "redis", "no"),
    "celery": ("celery[redis]", "redis", "no"),
    "taskiq": ("taskiq taskiq-redis", "redis", "no"),
    "rq": ("rq", "redis", "no"),
    "huey": ("huey", "redis", "no"),
    "arq": ("arq", "redis", "no"),
}
OURS = (("nfp", "relaxed"), ("nfp", "strict"), ("dcp", "relaxed"), ("http", "strict"))


class Shape(NamedTuple):
    """How many clients and workers there are, and how many calls each client has in flight."""

    title: str
    clients: int
    workers: int
    in_flight: int


ONE_CLIENT = Shape("one client, 100 calls in flight, one worker", 1, 1, IN_FLIGHT)
#: The shapes that only NATS and Dragoman are measured in.
SMALLER = (
    Shape("ten clients, 10 calls in flight each, four workers", 10, 4, IN_FLIGHT // 10),
    Shape("one client, one call at a time, one worker", 1, 1, 1),
)
NATS = ("nats", "jetstream")
#: The figures of each system, and what is on disk.
Found: TypeAlias = dict[str, tuple[dict[str, float], str]]
LEFT_OUT = {
    "gearmand": "no maintained Python client",
    "procrastinate": "needs a PostgreSQL server",
}


def run() -> list[Row]:
    """Measure all, or the systems named in `BENCH_ONLY`; print the tables as Markdown."""
    only = os.environ.get("BENCH_ONLY", "").split(",")
    wanted = [system for system in SYSTEMS if any(part in system for part in only)]
    skipped = dict(LEFT_OUT)
    found = measured(ONE_CLIENT, wanted, skipped)
    print(machine())
    print(markdown(ONE_CLIENT, found))
    for shape in SMALLER:
        print(markdown(shape, measured(shape, [each for each in wanted if each in NATS], skipped)))
    print("\n".join(f"Left out: {name} ({why})." for name, why in skipped.items()))
    return [(f"peers: {name}", each["rate"], "jobs/s") for name, (each, _) in found.items()]


def measured(shape: Shape, wanted: list[str], skipped: dict[str, str]) -> Found:
    """Measure systems, then Dragoman; add those that cannot run to `skipped`."""
    found: Found = {}
    for system in wanted:
        packages, server, on_disk = SYSTEMS[system]
        try:
            found[system] = (peer(shape, system, packages, server), on_disk)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            skipped[system] = str(error)
    for dialect, service in OURS:
        on_disk = "yes" if service == "strict" else "in batches"
        found[f"Dragoman {dialect} {service}"] = (measure(dialect, service, *shape[1:]), on_disk)
    return found


def machine() -> str:
    """Describe the machine and its load."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d')}"
    )


def markdown(shape: Shape, found: Found) -> str:
    """Write the table of one shape. A call that is alone takes 1 / its rate."""
    base = found["nats"][0]["rate"] if "nats" in found else 0.0
    lines = [
        f"\n{shape.title}\n",
        "| system | on disk | jobs/s | of nats-py | CPU us/job: server | worker | client |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, (each, on_disk) in found.items():
        share = f"{each['rate'] / base:.2f}" if base else "-"
        cpu = " | ".join(f"{each[party]:,.0f}" for party in ("broker", "worker", "client"))
        lines.append(f"| {name} | {on_disk} | {each['rate']:,.0f} | {share} | {cpu} |")
    return "\n".join(lines)


def peer(shape: Shape, system: str, packages: str, server: str) -> dict[str, float]:
    """Measure one system."""
    python = install(HOME / system, packages.split())
    with TemporaryDirectory() as folder, SERVERS[server](Path(folder)) as (process, address):
        command = [str(python), PROGRAM, system]
        workers = [start([*command, "worker", address]) for _ in range(shape.workers)]
        try:
            load = [*command, "client", address, str(shape.in_flight), str(SECONDS)]
            return load_clients(load, process.pid, shape.clients)
        finally:
            for worker in workers:
                stop(worker)


def install(home: Path, packages: list[str]) -> Path:
    """Install packages into an environment, if they are not there; return its interpreter.

    Not one for all: arq and Celery need different versions of Redis' client.
    """
    python, mark = home / "bin" / "python", home / ".installed"
    if mark.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(python), "-m", "pip", "install", "-q", "--prefer-binary"]
    done = subprocess.run([*pip, *packages], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip install failed: {done.stderr.strip().splitlines()[-1]}")
    mark.touch()
    return python


# --- servers ----------------------------------------------------------------------------------


def start(command: list[str]) -> "subprocess.Popen[bytes]":
    """Start a process whose output nobody reads, in a group of its own."""
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def served(command: list[str], port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server until the block ends; begin when its port answers."""
    process = start(command)
    try:
        until = time.monotonic() + 20
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[0]} does not answer on port {port}")
            time.sleep(0.05)
        yield process
    finally:
        stop(process)


@contextmanager
def redis(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Redis with nothing on disk, as these systems use it by default."""
    if shutil.which("redis-server") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise RuntimeError("redis-server is not installed, and only root can install it")
        command = ["apt-get", "install", "-y", "-q", "redis-server"]
        subprocess.run(command, check=True, capture_output=True)
    port = free_port()
    options = ["--port", str(port), "--dir", str(folder), "--save", "", "--appendonly", "no"]
    with served(["redis-server", *options], port) as process:
        yield process, f"redis://127.0.0.1:{port}/0"


@contextmanager
def nats(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A nats-server without storage."""
    port = free_port()
    with served([find_binary(), "-p", str(port)], port) as process:
        yield process, f"nats://127.0.0.1:{port}"


@contextmanager
def jetstream(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A nats-server that syncs every message to disk before it acknowledges it."""
    port, config = free_port(), folder / "nats.conf"
    config.write_text(f'port: {port}\njetstream {{ store_dir: "{folder}", sync_interval: always }}')
    with served([find_binary(), "-c", str(config)], port) as process:
        yield process, f"nats://127.0.0.1:{port}"


SERVERS = {"redis": redis, "nats": nats, "jetstream": jetstream}
