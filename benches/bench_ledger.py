"""What the ledger costs: durable appends, reads, recovery's share, sealing.

Every figure is a rate of the real SQLite ledger on the disk that holds the temporary directory.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from dragoman.ledger.base import Entry
from dragoman.ledger.export import Sealer
from dragoman.ledger.segments import to_batch
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record

Row: TypeAlias = tuple[str, float, str]

READ_RECORDS = 200_000
KINDS = (Kind.SUBMITTED, Kind.DISPATCHED, Kind.ENDED)


def run(records: int = READ_RECORDS) -> list[Row]:
    """Measure everything; `records` sets how many are read and sealed."""
    rows = [
        ("ledger: append, batch 1", _append_rate(1, 500), "records/s"),
        ("ledger: append, batch 1, 64 at once", _joined_rate(64, 200), "records/s"),
        ("ledger: append, batch 100", _append_rate(100, 200), "records/s"),
        ("ledger: append, batch 1000", _append_rate(1000, 100), "records/s"),
        ("ledger: append, batch 100, 1 KiB bodies", _append_rate(100, 100, 1024), "records/s"),
    ]
    with _ledger() as ledger:
        for first in range(1, records, 5000):
            _wait(ledger.append(_entries(first, min(5000, records - first + 1))))
        rows += _reading(ledger, records)
        rows += _sealing(ledger, records)
        path = ledger.path
        _wait(ledger.close())
        seconds = _timed(lambda: _wait(_opened_and_closed(path)))
        rows.append(("ledger: open and check", records / seconds, "records/s"))
    return rows


def _reading(ledger: SqliteLedger, records: int) -> list[Row]:
    def read_all() -> None:
        for _ in ledger.read():
            pass

    job = next(ledger.read(after=records // 2, limit=1)).job
    return [
        ("ledger: read", records / _timed(read_all), "records/s"),
        ("ledger: history of one job", _timed(lambda: ledger.history(job)) * 1e6, "us"),
    ]


def _sealing(ledger: SqliteLedger, records: int) -> list[Row]:
    def to_arrow() -> None:
        after = 0
        while block := ledger.rows(after, 2000):
            to_batch(block)
            after = block[-1][0]

    sealer = Sealer(ledger, ledger.path.parent / "segments", max_records=records)
    return [
        ("ledger: rows to Arrow", records / _timed(to_arrow), "rows/s"),
        ("ledger: export", records / _timed(lambda: sealer.seal_once(1)), "rows/s"),
    ]


def _append_rate(batch: int, batches: int, body: int = 0) -> float:
    made = [_entries(1 + n * batch, batch, body) for n in range(batches)]

    async def append_all(ledger: SqliteLedger) -> None:
        for entries in made:
            await ledger.append(entries)

    with _ledger() as ledger:
        return batch * batches / _timed(lambda: _wait(append_all(ledger)))


def _joined_rate(at_once: int, rounds: int) -> float:
    made = [[_entries(1 + n * at_once + k, 1) for k in range(at_once)] for n in range(rounds)]

    async def append_all(ledger: SqliteLedger) -> None:
        for entries in made:
            await asyncio.gather(*map(ledger.append, entries))

    with _ledger() as ledger:
        return at_once * rounds / _timed(lambda: _wait(append_all(ledger)))


def _entries(first: int, count: int, body: int = 0) -> list[Entry]:
    return [
        Entry(_record(seq), Body("nfp", (bytes(body),)) if body else None)
        for seq in range(first, first + count)
    ]


def _record(seq: int) -> Record:
    """Make a record as a busy broker would: three for each job, random job ids."""
    job = os.urandom(12).hex() if seq % 3 == 0 else f"{seq * 2654435761 % 2**64:024x}"
    return Record(
        seq,
        1.7e9 + seq / 1000,
        KINDS[seq % 3],
        job=job,
        attempt=1,
        service="resize",
        task="scale",
        client=f"client-{seq % 50}",
        worker=f"worker-{seq % 20}",
        peer=f"peer-{seq % 20}",
        dialect="nfp",
        target="any",
        state="running",
        nbytes=128,
        digest=os.urandom(16).hex(),
        submitted_at=1.7e9 + seq / 1000,
        deadline_at=1.7e9 + 60,
    )


@contextmanager
def _ledger() -> Iterator[SqliteLedger]:
    with TemporaryDirectory(prefix="bench-ledger-") as folder:
        ledger = SqliteLedger(Path(folder) / "ledger.db")
        yield ledger
        _wait(ledger.close())


async def _opened_and_closed(path: Path) -> None:
    await SqliteLedger(path).close()


def _wait(coroutine: Coroutine[Any, Any, Any]) -> None:
    asyncio.run(coroutine)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    for name, figure, unit in run():
        print(f"{name:45} {figure:12,.0f} {unit}")
