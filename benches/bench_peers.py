"""Dragoman beside other task systems: the same task, calls in flight and machine, in one run.

The systems live in an environment of their own (`build/peers`), made at the first run. nats-server
comes with Dragoman; Redis comes from the system, and is installed with apt-get where this runs as
root. What cannot run is named in the table. Every system has one client with 100 calls of
`add(x, y)` in flight and one worker process with 8 threads (or coroutines). `on disk` says whether
a job is on disk (fsync) before its client is told that it was taken.
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

from benches.bench_sdk import IN_FLIGHT, SECONDS, Row, case_name, load_clients, measure

from dragoman.testing.fabric import free_port
from dragoman.transports.nats_server import find_binary

HOME = Path(__file__).parents[1] / "build" / "peers"
PYTHON = HOME / "bin" / "python"
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
LEFT_OUT = {
    "gearmand": "no maintained Python client",
    "procrastinate": "needs a PostgreSQL server",
}


def run() -> list[Row]:
    """Measure all, or the systems named in `BENCH_ONLY`; print the table as Markdown."""
    only = os.environ.get("BENCH_ONLY", "").split(",")
    found: dict[str, tuple[dict[str, float], str]] = {}
    skipped = dict(LEFT_OUT)
    for system, (packages, server, on_disk) in SYSTEMS.items():
        if not any(part in system for part in only):
            continue
        try:
            found[system] = (peer(system, packages, server), on_disk)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            skipped[system] = str(error)
    for dialect, service in OURS:
        name = case_name(dialect, service, 1, 1, IN_FLIGHT).removeprefix("sdk: ")
        on_disk = "yes" if service == "strict" else "in batches"
        found[f"Dragoman {name}"] = (measure(dialect, service, 1, 1, IN_FLIGHT), on_disk)
    print(markdown(found, skipped))
    return [(f"peers: {name}", each["rate"], "jobs/s") for name, (each, _) in found.items()]


def markdown(found: dict[str, tuple[dict[str, float], str]], skipped: dict[str, str]) -> str:
    """Write the table with the machine and what is left out."""
    base = found["nats"][0]["rate"] if "nats" in found else 0.0
    lines = [
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load "
        f"{os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d')}",
        "",
        "| system | on disk | jobs/s | of nats-py | CPU us/job: server | worker | client |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, (each, on_disk) in found.items():
        share = f"{each['rate'] / base:.2f}" if base else "-"
        cpu = " | ".join(f"{each[party]:,.0f}" for party in ("broker", "worker", "client"))
        lines.append(f"| {name} | {on_disk} | {each['rate']:,.0f} | {share} | {cpu} |")
    lines += ["", *(f"Left out: {name} ({why})." for name, why in skipped.items())]
    return "\n".join(lines)


def peer(system: str, packages: str, server: str) -> dict[str, float]:
    """Measure one system."""
    install(packages.split())
    with TemporaryDirectory() as folder, SERVERS[server](Path(folder)) as (process, address):
        worker = start([str(PYTHON), PROGRAM, system, "worker", address])
        try:
            command = [str(PYTHON), PROGRAM, system, "client", address]
            return load_clients([*command, str(IN_FLIGHT), str(SECONDS)], process.pid)
        finally:
            stop(worker)


def install(packages: list[str]) -> None:
    """Install packages into the peers' environment, if they are not there."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    marks = [HOME / f".{package.partition('[')[0]}" for package in packages]
    if all(mark.exists() for mark in marks):
        return
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--prefer-binary"]
    done = subprocess.run([*pip, *packages], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip install failed: {done.stderr.strip().splitlines()[-1]}")
    for mark in marks:
        mark.touch()


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
