"""What a start costs: CPU seconds, memory, and bytes for each queued job, by number of jobs.

Each measurement is a process of its own, so that it starts with clean memory. `all records` is a
start without a snapshot. Jobs are as of raw NFP peers: ids of 32 hex digits, bodies of 180 bytes.
Sizes: `python -m benches.bench_start 10000 100000 1000000`; `finished:5000000` are records of jobs
that have ended.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from dragoman.cli.up import tune_garbage_collector
from dragoman.core.limits import Limits
from dragoman.core.recovery import resume
from dragoman.ledger.base import Entry
from dragoman.ledger.layout import LEDGER_FILE
from dragoman.ledger.snapshots import SNAPSHOT_FILE, FileSnapshots
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, terms_text
from dragoman.server.snapshot_process import write_snapshot_of
from dragoman.server.store_recovery import collector_paused, recover_store

Row: TypeAlias = tuple[str, float, str]

SIZES = ("10000", "100000")
BODY = Body("nfp", (b"x" * 180,))
NOW = 1_700_000_000.0
LIMITS = Limits(queued_jobs=10_000_000, queued_bytes=2**40)


def run(sizes: tuple[str, ...] = SIZES) -> list[Row]:
    """Measure each size, from all records and from a snapshot."""
    rows: list[Row] = []
    for size in sizes:
        with TemporaryDirectory() as folder:
            asyncio.run(_fill(Path(folder), size))
            replayed = _measured(folder)
            write_snapshot_of(Path(folder), LIMITS.finished_jobs, LIMITS.retention, True)
            restored = _measured(folder)
            size_on_disk = (Path(folder) / SNAPSHOT_FILE).stat().st_size
        rows += _rows(size, replayed, restored, size_on_disk)
    return rows


def _rows(size: str, replayed: Any, restored: Any, size_on_disk: int) -> list[Row]:
    jobs = int(size.rpartition(":")[2])
    found: list[Row] = [
        (f"{size}: start from all records", replayed["cpu"], "CPU s"),
        (f"{size}: start from a snapshot", restored["cpu"], "CPU s"),
        (f"{size}: memory after the start", restored["rss"] / 2**20, "MiB"),
        (f"{size}: snapshot", size_on_disk / 2**20, "MiB"),
    ]
    if ":" not in size:
        found.append((f"{size}: memory for each queued job", restored["grown"] / jobs, "bytes"))
    return found


def _measured(folder: str) -> Any:
    command = [sys.executable, "-m", "benches.bench_start", "--start", folder]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _start(data: Path) -> dict[str, float]:
    """Start a broker on a ledger, as far as `ready`; links and peers are left out."""
    tune_garbage_collector()
    before, began = _rss(), time.process_time()
    snapshots = FileSnapshots(data / SNAPSHOT_FILE)
    head = snapshots.head()
    trusted = (head.seq, head.mark) if head else None
    ledger = SqliteLedger(data / LEDGER_FILE, trusted=trusted)
    with collector_paused():
        store = recover_store(ledger, snapshots, LIMITS.finished_jobs).store
        broker, _ = resume(store, NOW + 1000, LIMITS)
    took, after = time.process_time() - began, _rss()
    assert broker.state.store is store
    asyncio.run(ledger.close())
    return {"cpu": took, "rss": after, "grown": after - before}


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def _fill(data: Path, size: str) -> None:
    ledger = SqliteLedger(data / LEDGER_FILE)
    kind, _, count = size.rpartition(":")
    entries = _finished(int(count)) if kind else _queued(int(count))
    while batch := list(islice(entries, 5000)):
        await ledger.append(batch)
    await ledger.close()


def _queued(jobs: int) -> Iterator[Entry]:
    for seq in range(1, jobs + 1):
        yield Entry(_submitted(seq, seq), BODY)


def _finished(records: int) -> Iterator[Entry]:
    worker: dict[str, Any] = {"worker": "w", "peer": "nfp/w", "attempt": 1}
    for seq in range(1, records + 1, 3):
        job = _submitted(seq, seq)
        same: dict[str, Any] = {"job": job.job, "service": "a", "client": job.client}
        at = job.at
        yield Entry(job)
        yield Entry(Record(seq + 1, at, Kind.DISPATCHED, state="running", **same, **worker))
        yield Entry(Record(seq + 2, at, Kind.ENDED, state="succeeded", **same, **worker))


def _submitted(seq: int, number: int) -> Record:
    at = NOW + seq / 1e4
    terms = terms_text(Terms(patience=None, timeout=86_400.0))
    return Record(
        seq,
        at,
        Kind.SUBMITTED,
        f"{number:032x}",
        service="a",
        task="add",
        client=f"nfp/client-{number % 50}",
        dialect="nfp",
        target="any",
        state="queued",
        nbytes=BODY.size,
        digest=f"{number * 7:032x}",
        terms=terms,
        submitted_at=at,
        deadline_at=at + 86_400,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--start"]:
        print(json.dumps(_start(Path(sys.argv[2]))))
    else:
        for what, figure, unit in run(tuple(sys.argv[1:]) or SIZES):
            print(f"{what}: {figure:,.2f} {unit}", flush=True)
