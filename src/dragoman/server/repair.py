"""Repair: builds a sound ledger from what a damaged one still has.

The damaged files stay as they are. Every readable record gets its old number in the new ledger. A
lost record is replaced by a record that says so, because numbers have no gaps. An open job whose
history may have lost a record, or whose request is lost, ends as `dead`: nobody can vouch for it.
"""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job
from dragoman.ledger import layout, pins
from dragoman.ledger.atomic_file import make_folder
from dragoman.ledger.backup import copy_segments
from dragoman.ledger.base import Entry, LedgerError
from dragoman.ledger.export import CHECKPOINT
from dragoman.ledger.layout import LEDGER_FILE, SEALED_FOLDER, Origin, Transaction
from dragoman.ledger.rows import to_records
from dragoman.ledger.salvage import Salvaged, SalvagedPins, salvage, salvage_pins
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record
from dragoman.model.value import field, value

_BATCH: Final = 1000
#: What a broken history makes the fold raise.
_BROKEN: Final = (LookupError, AssertionError, ValueError)


@value
class RepairReport:
    """What was saved and what was lost."""

    first: int = 1
    last: int = 0
    saved: int = 0
    #: Records that could not be read, and records whose bodies could not.
    lost: list[int] = field(default_factory=list)
    lost_bodies: list[int] = field(default_factory=list)
    #: Records of jobs whose history is broken; kept as notes.
    detached: list[int] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)


def repair(data: Path, target: Path, key: bytes = b"") -> RepairReport:
    """Build a sound ledger in a new folder from the damaged one of a data folder."""
    if target.exists() and any(target.iterdir()):
        raise LedgerError(f"{target} is not empty; name a new folder for the repaired ledger")
    make_folder(target)
    copy = target / "damaged"
    copy.mkdir(mode=0o700)
    for path in data.glob(f"{LEDGER_FILE}*"):
        # Opening a database changes its log; the log is evidence.
        shutil.copyfile(path, copy / path.name)
    try:
        return asyncio.run(_rebuild(copy / LEDGER_FILE, data / SEALED_FOLDER, target, key))
    finally:
        shutil.rmtree(copy)


async def _rebuild(damaged: Path, sealed: Path, target: Path, key: bytes) -> RepairReport:
    found, fresh = salvage(damaged, sealed), target / LEDGER_FILE
    start = next(found, None)
    if start is None:
        raise LedgerError(f"{damaged.name}: no record can be read")
    pinned = salvage_pins(damaged)
    _create(fresh, start.seq, pinned)
    ledger = SqliteLedger(fresh, key)
    try:
        rebuilt = _Rebuilt(start.seq, pinned)
        entries = rebuilt.entries(_chained(start, found))
        while batch := list(islice(entries, _BATCH)):
            await ledger.append(batch)
        await ledger.append(list(rebuilt.endings()))
        # Sealing goes on where it was.
        kept = copy_segments(sealed, target / SEALED_FOLDER, ledger.last_seq)
        ledger.checkpoint(CHECKPOINT, kept.last)
        report: RepairReport = replace(rebuilt.report, last=ledger.last_seq)
        return report
    finally:
        await ledger.close()


def _chained(first: Salvaged, others: Iterator[Salvaged]) -> Iterator[Salvaged]:
    yield first
    yield from others


def _create(path: Path, first: int, pinned: SalvagedPins) -> None:
    """Create a ledger whose first record will have this number, with pinned ones before it."""
    layout.create(path)
    if first == 1:
        return
    connection = layout.connect(path)
    layout.write_origin(connection, Origin(first, 0))
    connection.execute("UPDATE links SET first = ?", (first,))
    with Transaction(connection):
        pins.put(connection, [pin for pin, _ in pinned.found])
        blobs = [(pin.seq, blob) for pin, blob in pinned.found if blob is not None]
        connection.executemany("INSERT INTO bodies VALUES (?, ?)", blobs)
    connection.close()


class _Rebuilt:
    """The new ledger's records, and the jobs they leave open."""

    def __init__(self, first: int, pinned: SalvagedPins) -> None:
        self.report = RepairReport(first=first)
        self._store = JobStore(is_cut=first > 1)
        self._without_request: set[int] = set()
        #: Jobs that began before this record may have lost one.
        self._doubtful = first if pinned.is_any_lost else 0
        for record in to_records([pin.row() for pin, _ in pinned.found]):
            self._apply(record)

    def entries(self, found: Iterator[Salvaged]) -> Iterator[Entry]:
        """Yield one entry for each position."""
        for each in found:
            entry = self._lost(each.seq) if each.record is None else self._saved(each, each.record)
            self._store.last_seq, self._store.last_at = entry.record.seq, entry.record.at
            yield entry

    def _lost(self, seq: int) -> Entry:
        self.report.lost.append(seq)
        return Entry(self._note(seq, f"repair: record {seq} is lost"))

    def _saved(self, each: Salvaged, record: Record) -> Entry:
        if each.is_body_lost:
            self.report.lost_bodies.append(each.seq)
            self._without_request.add(each.seq)
            record = replace(record, nbytes=0, digest="")
        if not self._apply(record):
            detail = f"repair: was {record.kind!r} of job {record.job}, whose history is broken"
            return Entry(self._note(each.seq, detail))
        self.report = replace(self.report, saved=self.report.saved + 1)
        return Entry(record, each.body)

    def _apply(self, record: Record) -> bool:
        """Apply a record; tell whether it fits the history of its job."""
        try:
            self._store.apply(record)
        except _BROKEN:
            self.report.detached.append(record.seq)
            return False
        return True

    def _note(self, seq: int, detail: str) -> Record:
        return Record(seq, self._store.last_at, Kind.CHANGED, detail=detail)

    def endings(self) -> Iterator[Entry]:
        """End every job that nobody can vouch for."""
        seq = self._store.last_seq
        doubtful = max([*self.report.lost, *self.report.detached, self._doubtful])
        jobs = [job for job in self._store.jobs.values() if not job.is_final]
        for job in jobs:
            if job.submit_seq < doubtful or self._lacks_request(job):
                seq += 1
                self.report.dead.append(job.id)
                yield Entry(self._dead(seq, job))

    def _lacks_request(self, job: Job) -> bool:
        seqs = {job.submit_seq, *(part.request_seq for part in job.open_parts())}
        return bool(seqs & self._without_request)

    def _dead(self, seq: int, job: Job) -> Record:
        return Record(
            seq,
            self._store.last_at,
            Kind.ENDED,
            JobId(job.id),
            service=job.service,
            task=job.task,
            client=job.client,
            principal=job.principal,
            state=JobState.DEAD,
            fault=FaultCode.EXHAUSTED,
            detail="the ledger was repaired, and records of this job may be lost",
            submitted_at=job.submitted_at,
            deadline_at=job.deadline_at,
            strict=job.terms.strict,
        )
