"""Small builders for ledger tests."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from dragoman.ledger.base import Entry, Ledger
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.body import Body
from dragoman.model.record import Kind, Record

T = TypeVar("T")
#: Records of a filled ledger.
COUNT = 600


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def record(seq: int, job: str = "j1", at: float | None = None, **more: Any) -> Record:
    return Record(
        seq,
        1000.0 + seq if at is None else at,
        more.pop("kind", Kind.PROGRESS),
        job=job,
        **more,
    )


def entry(seq: int, job: str = "j1", body: bytes | None = None, **more: Any) -> Entry:
    kept = None if body is None else Body("nfp", (body,))
    return Entry(record(seq, job, nbytes=len(body or b""), **more), kept)


def entries(first: int, last: int, job: str = "j1") -> list[Entry]:
    return [entry(seq, job) for seq in range(first, last + 1)]


def fill(ledger: Ledger, last: int, *, batch: int = 100) -> None:
    """Append records up to `last`, of ten jobs, every third with a body."""

    async def append() -> None:
        for first in range(ledger.last_seq + 1, last + 1, batch):
            seqs = range(first, min(first + batch, last + 1))
            await ledger.append([varied(seq) for seq in seqs])

    run(append())


def varied(seq: int) -> Entry:
    body = b"body of %d" % seq * 3 if seq % 3 == 0 else None
    return entry(seq, f"j{seq % 10}", body, detail=f"détail {seq}\nline", count=seq)


def seqs(records: Iterable[Record]) -> list[int]:
    return [each.seq for each in records]


def with_ledger(path: Path, use: Callable[[SqliteLedger], T]) -> T:
    """Open, use and close a ledger."""
    ledger = SqliteLedger(path)
    try:
        return use(ledger)
    finally:
        run(ledger.close())


def everything(ledger: SqliteLedger) -> list[Record]:
    """Return all records, verified."""
    assert ledger.verify() == len(list(ledger.read()))
    return list(ledger.read())
