"""What the core costs: one request and its reply, and the recovery from a long ledger.

Times are CPU times of this process. A busy machine distorts them less than wall-clock times. The
whole recovery, from the file to the job store, is given by both clocks.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from benches.counted import CLIENT, QUESTION, request_and_reply

from dragoman.cli.up import tune_garbage_collector
from dragoman.core.recovery import fold
from dragoman.ledger.base import Entry
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind, Record

Row: TypeAlias = tuple[str, float, str]

REQUESTS = 20_000
RECORDS = 1_000_000


def run(requests: int = REQUESTS, records: int = RECORDS) -> list[Row]:
    """Measure everything, with the garbage collector set as in a broker."""
    tune_garbage_collector()
    free = min(request_and_reply(requests, backlog=0) for _ in range(3))
    queued = min(request_and_reply(requests, backlog=1000) for _ in range(3))
    return [
        ("core: request and reply, a worker is free", free, "us"),
        ("core: request and reply, 1000 jobs wait", queued, "us"),
        (f"core: fold of {records:,} records", _fold(records), "s"),
        *_recovery(records),
    ]


def _fold(records: int) -> float:
    """Return the time to replay so many records, without the time to make them."""
    making = 0.0

    def made() -> Iterator[Record]:
        nonlocal making
        for first in range(1, records + 1, 30_000):
            began = time.process_time()
            batch = list(_lives(first, min(30_000, records + 1 - first)))
            making += time.process_time() - began
            yield from batch

    started = time.process_time()
    store = fold(made())
    assert store.last_seq == records
    return time.process_time() - started - making


def _recovery(records: int) -> list[Row]:
    """Return the time to open a ledger of so many records, check, read and replay them."""
    with TemporaryDirectory(prefix="bench-recovery-") as folder:
        path = Path(folder) / "ledger.sqlite"
        asyncio.run(_filled(path, records))
        wall, cpu = time.monotonic(), time.process_time()
        ledger = SqliteLedger(path)
        assert fold(ledger.read()).last_seq == records
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        asyncio.run(ledger.close())
    what = f"core: recovery from a file of {records:,} records (aim 10)"
    return [(what, wall, "s"), (f"{what}: CPU", cpu, "s")]


async def _filled(path: Path, records: int) -> None:
    ledger = SqliteLedger(path)
    for first in range(1, records + 1, 30_000):
        batch = _lives(first, min(30_000, records + 1 - first))
        await ledger.append([Entry(record) for record in batch])
    await ledger.close()


def _lives(first: int, count: int) -> Iterator[Record]:
    """Make the records of jobs that are submitted, run and succeed, one after the other."""
    digest = QUESTION.digest()
    for seq in range(first, first + count):
        number, step = divmod(seq - 1, 3)
        job, at = f"job-{number}", seq / 1000
        if step == 0:
            yield Record(
                seq, at, Kind.SUBMITTED, job, service="a", client=CLIENT, target="any",
                state="queued", nbytes=200, digest=digest, terms='{"timeout":600.0}',
                submitted_at=at, deadline_at=at + 600,
            )  # fmt: skip
        elif step == 1:
            yield Record(
                seq, at, Kind.DISPATCHED, job, attempt=1, service="a", client=CLIENT, worker="w1",
                peer="nfp/w1", state="running",
            )  # fmt: skip
        else:
            yield Record(
                seq, at, Kind.ENDED, job, attempt=1, service="a", client=CLIENT, worker="w1",
                peer="nfp/w1", state="succeeded", nbytes=200,
            )  # fmt: skip


if __name__ == "__main__":
    for name, value, unit in run():
        print(f"{name:50} {value:10.2f} {unit}")
