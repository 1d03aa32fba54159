"""What the built-in services cost: resources that move, files that are fetched.

Resources: 50,000 over 500 workers, in a whole core, with records and effects. Files: a broker in a
separate process, the client here, compared with a socket copy of the same file in the same run.
`DRAGOMAN_BENCH_MIB` sets the size of the file (1024).
"""

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import psutil

from dragoman.core.broker import Broker
from dragoman.core.effects import Append
from dragoman.core.events import PeerLeft, ResourcesDeclared, TimeAdvanced, WorkerJoined
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.sdk.blocking import Client
from dragoman.sdk.files import Files

Row: TypeAlias = tuple[str, float, str]

RESOURCES, WORKERS = 50_000, 500
MIB = int(os.environ.get("DRAGOMAN_BENCH_MIB", "1024"))
_PIECE = 1 << 20


def run() -> list[Row]:
    return [*_resources(), *_files()]


# --- resources --------------------------------------------------------------------------------


def _joined(name: str) -> WorkerJoined:
    return WorkerJoined(PeerId(f"nfp/{name}"), WorkerName(name), (ServiceName("net"),))


def _resources() -> list[Row]:
    broker, now = Broker(), 1.0
    names = tuple(f"device-{n}.example" for n in range(RESOURCES))
    broker.handle(ResourcesDeclared(ServiceName("net"), names), now)
    begun = time.perf_counter()
    for n in range(WORKERS):
        broker.handle(_joined(f"w{n}"), now)
    broker.handle(TimeAdvanced(), now + 1.0)
    everybody = time.perf_counter() - begun
    # Confirmations of the first workers are not part of the measurement.
    broker.handle(TimeAdvanced(), now + 60.0)
    joins = [_told(broker, _joined(f"new{n}"), n) for n in range(5)]
    leaves = [_told(broker, PeerLeft(PeerId(f"nfp/new{n}"), "left"), 5 + n) for n in range(5)]
    share, pause = RESOURCES / (WORKERS + 3), broker.state.limits.move_pause * 1e3
    return [
        ("resources: a worker joins, 50,000 over 500: to compute", _worst(joins), "ms"),
        ("resources: the same until it is on record", _worst(joins) + pause, "ms"),
        ("resources: a worker leaves: to compute", _worst(leaves), "ms"),
        ("resources: the same until it is on record", _worst(leaves) + pause, "ms"),
        ("resources: moved by a join, of a fair share", _moved(joins) / share, "times"),
        ("resources: moved by a leave, of a fair share", _moved(leaves) / share, "times"),
        ("resources: all 500 workers join at once", everybody, "s"),
    ]


def _worst(told: list[tuple[float, int]]) -> float:
    return max(seconds for seconds, _ in told) * 1e3


def _moved(told: list[tuple[float, int]]) -> float:
    return sum(moved for _, moved in told) / len(told)


def _told(broker: Broker, event: WorkerJoined | PeerLeft, turn: int) -> tuple[float, int]:
    """Return the seconds of the broker, and the number of resources that moved."""
    owners, now = broker.state.registry.owners, 100.0 + 20.0 * turn
    before = {name: set(found) for name, found in owners.items()}
    begun = time.perf_counter()
    broker.handle(event, now)
    effects = broker.handle(TimeAdvanced(), now + 1.0)
    seconds = time.perf_counter() - begun
    assert any(isinstance(e, Append) and e.record.kind == "owns" for e in effects)
    peer = event.worker if isinstance(event, WorkerJoined) else event.peer
    moved = {name for name in before if set(owners[name]) != before[name]}
    assert moved == {n for n in before if peer in owners[n] or peer in before[n]}
    return seconds, len(moved)


# --- files ------------------------------------------------------------------------------------


def _files() -> list[Row]:
    with TemporaryDirectory(prefix="dragoman-bench-") as folder:
        shared = Path(folder, "shared")
        shared.mkdir()
        digest = _write(shared / "big")
        plain = _socket_copy(shared / "big", Path(folder, "plain"))
        rows = [(f"files: plain socket copy, {MIB} MiB", MIB / plain, "MiB/s")]
        with _broker(Path(folder), shared) as (process, endpoints):
            for dialect in ("nfp", "dcp", "zss"):
                rows += _fetch(process, dialect, endpoints[dialect], Path(folder), digest)
        return rows


def _write(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(MIB):
            piece = os.urandom(_PIECE)
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _socket_copy(source: Path, target: Path) -> float:
    """Copy a file through a loopback socket, without broker or checks."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            line, _ = server.accept()
            with line, source.open("rb") as file:
                while piece := file.read(_PIECE):
                    line.sendall(piece)

        sender = threading.Thread(target=send)
        begun = time.perf_counter()
        sender.start()
        with socket.create_connection(server.getsockname()) as line, target.open("wb") as file:
            while piece := line.recv(_PIECE):
                file.write(piece)
        sender.join()
        seconds = time.perf_counter() - begun
    target.unlink()
    return seconds


@contextmanager
def _broker(folder: Path, shared: Path) -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    config, ready = folder / "bench.toml", folder / "ready.json"
    on = "".join(f'{name} = "tcp://127.0.0.1:0"\n' for name in ("nfp", "dcp", "zss"))
    off = 'zss_backend = "off"\nmemo = "off"\nnats = "off"\n'
    config.write_text(f'[listen]\n{on}{off}[files.roots]\n"" = "{shared}"\n')
    command = [str(Path(sys.executable).with_name("dragoman")), "up", "--log-level", "error"]
    where = ["--config", str(config), "--data", str(folder / "data"), "--ready-file", str(ready)]
    process = subprocess.Popen([*command, "--http", "off", *where])
    try:
        while not ready.exists():
            assert process.poll() is None, "the broker ended"
            time.sleep(0.05)
        yield psutil.Process(process.pid), json.loads(ready.read_text())
    finally:
        process.terminate()
        process.wait()


def _fetch(
    broker: psutil.Process, dialect: str, endpoint: str, folder: Path, digest: str
) -> list[Row]:
    with Client(endpoint.replace("tcp://", f"{dialect}://")) as client:
        files = Files(client)
        # On the first request the broker reads the whole file once for its digests.
        files.details("nf://big")
        before = _memory(broker), _memory(psutil.Process())
        peaks = list(before)

        def watch(done: int, size: int) -> None:
            peaks[0] = max(peaks[0], _memory(broker))
            peaks[1] = max(peaks[1], _memory(psutil.Process()))

        begun = time.perf_counter()
        copy = files.fetch("nf://big", folder / "copy", watch)
        seconds = time.perf_counter() - begun
    found = hashlib.sha256()
    with copy.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    assert found.hexdigest() == digest, "the copy is not the file"
    copy.unlink()
    grown: list[Any] = [(peak - old) / 2**20 for peak, old in zip(peaks, before, strict=True)]
    return [
        (f"files: fetched over {dialect}, checked, {MIB} MiB", MIB / seconds, "MiB/s"),
        (f"files: {dialect}, memory the broker grew by", grown[0], "MiB"),
        (f"files: {dialect}, memory the client grew by", grown[1], "MiB"),
    ]


def _memory(process: psutil.Process) -> int:
    return int(process.memory_info().rss)
