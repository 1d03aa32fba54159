"""Synthetic ledgers of any size, in the layout of an export.

The generator works on numeric columns, one chunk of jobs at a time. Records later than the end of
their chunk wait for the next one, so memory does not grow with the ledger. The same seed gives the
same ledger. A ledger without planted faults breaks no audit rule.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.model.record import VERSION, Record
from dragoman.pipeline.synth_jobs import Batch, Ints, JobChunks, concatenate, select
from dragoman.pipeline.synth_plants import DROPPED, PLANTS, TWICE, planted
from dragoman.pipeline.synth_sessions import WorkerSessions
from dragoman.pipeline.synth_world import DIALECTS, FAULTS, KINDS, STATES, SynthWorld, build_world

#: Monday, 5 January 2026, midnight UTC.
BEGINNING_US: Final = 1_767_571_200_000_000
SEGMENT_ROWS: Final = 250_000
#: Average records per second; the rate is higher by day.
RATE: Final = 60.0
#: Average records per job.
_RECORDS_PER_JOB: Final = 3.7
#: Time from the start to the first planted fault.
_PLANTS_AFTER_US: Final = 3_000_000

_INSTANT: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class SynthSummary:
    """What `synthesise` wrote."""

    records: int
    segments: int
    bytes: int
    seconds: float


def synthesise(
    folder: Path,
    events: int,
    seed: int = 1,
    plants: Sequence[str] = (),
    *,
    rate: float = RATE,
    segment_rows: int = SEGMENT_ROWS,
) -> SynthSummary:
    """Write a ledger of `events` sequence numbers as segments and a manifest."""
    unknown = sorted(set(plants) - set(PLANTS))
    if unknown:
        raise ValueError(f"unknown faults {unknown}; choose from {sorted(PLANTS)}")
    begun = time.monotonic()
    world = build_world()
    (folder / "segments").mkdir(parents=True, exist_ok=True)
    listed: list[dict[str, Any]] = []
    first = 1
    for batch in cut(in_order(world, seed, plants, rate), events, segment_rows):
        listed.append(_write(folder, world, batch, first, seed))
        first += len(batch["at"])
    _write_manifest(folder, listed)
    size = sum(entry["bytes"] for entry in listed)
    return SynthSummary(events, len(listed), size, time.monotonic() - begun)


def in_order(world: SynthWorld, seed: int, plants: Sequence[str], rate: float) -> Iterator[Batch]:
    """Yield batches in order of time, without end."""
    workers = WorkerSessions(world, BEGINNING_US)
    waiting = workers.beginning()
    if plants:
        faults = planted(world, plants, BEGINNING_US + _PLANTS_AFTER_US)
        waiting = concatenate([waiting, faults])
    covered = BEGINNING_US - 2_000_000
    for jobs, until in JobChunks(world, seed, BEGINNING_US, rate / _RECORDS_PER_JOB):
        batch = concatenate([waiting, jobs, workers.between(covered, until)])
        batch = select(batch, np.argsort(batch["at"], kind="stable"))
        split = int(np.searchsorted(batch["at"], until))
        yield {name: column[:split] for name, column in batch.items()}
        waiting = {name: column[split:] for name, column in batch.items()}
        covered = until


def cut(batches: Iterator[Batch], events: int, size: int) -> Iterator[Batch]:
    """Divide batches into segments of one size, and stop after `events` records."""
    held: list[Batch] = []
    have, left = 0, events
    for batch in batches:
        held.append(batch)
        have += len(batch["at"])
        while have >= min(size, left) > 0:
            whole = concatenate(held)
            take = min(size, left)
            yield {name: column[:take] for name, column in whole.items()}
            held = [{name: column[take:] for name, column in whole.items()}]
            have -= take
            left -= take
        if left <= 0:
            return


def _write(
    folder: Path, world: SynthWorld, batch: Batch, first: int, seed: int
) -> dict[str, object]:
    """Write one segment; its name has its first and last number. Return its manifest entry."""
    last = first + len(batch["at"]) - 1
    flag = batch["flag"]
    times = np.where(flag == DROPPED, 0, np.where(flag == TWICE, 2, 1))
    seq = np.repeat(np.arange(first, last + 1), times)
    rows = {name: np.repeat(column, times) for name, column in batch.items()}
    name = f"segments/seg-{first:020d}-{last:020d}.parquet"
    path = folder / name
    pq.write_table(to_table(world, rows, seq, seed), path, compression="zstd")
    data = path.read_bytes()
    return {
        "file": name,
        "first": first,
        "last": last,
        "rows": len(seq),
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "min_at": int(rows["at"].min()) / 1e6,
        "max_at": int(rows["at"].max()) / 1e6,
        "schema_version": VERSION,
    }


def _write_manifest(folder: Path, listed: list[dict[str, object]]) -> None:
    fresh = folder / "manifest.json.new"
    fresh.write_text(json.dumps({"version": 1, "segments": listed}, indent=1))
    os.replace(fresh, folder / "manifest.json")


def to_table(world: SynthWorld, rows: Batch, seq: Ints, seed: int) -> pa.Table:
    """Turn numeric columns into records."""
    n = len(seq)

    def texts(codes: Ints, known: Sequence[str]) -> "pa.Array[Any]":
        return pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array([*known])).cast(
            pa.string()
        )

    def instants(micros: Ints) -> "pa.Array[Any]":
        return pa.array(micros, pa.int64(), mask=micros == 0).cast(_INSTANT)

    numbers, which = np.unique(rows["job"], return_inverse=True)
    ids = [f"{seed:x}-{number:011x}" if number else "" for number in numbers.tolist()]
    principal = np.where(rows["client"] > 0, rows["client"], 0)
    columns: dict[str, pa.Array[Any]] = {
        "seq": pa.array(seq),
        "at": instants(rows["at"]),
        "kind": texts(rows["kind"], KINDS),
        "job": texts(which.astype(np.int64), ids),
        "part": pa.array(rows["part"]),
        "attempt": pa.array(rows["attempt"]),
        "service": texts(rows["service"], world.services),
        "client": texts(rows["client"], world.clients),
        "worker": texts(rows["worker"], world.workers),
        "peer": texts(rows["worker"], world.peers()),
        "principal": texts(principal, world.principals),
        "dialect": texts(rows["dialect"], DIALECTS),
        "target": texts(rows["target"], world.targets),
        "state": texts(rows["state"], STATES),
        "fault": texts(rows["fault"], FAULTS),
        "detail": texts(rows["detail"], world.details),
        "nbytes": pa.array(rows["nbytes"]),
        "priority": pa.array(rows["priority"]),
        "submitted_at": instants(rows["submitted_at"]),
        "deadline_at": instants(rows["deadline_at"]),
        "count": pa.array(rows["count"]),
        "strict": pa.array(np.ones(n, bool)),
    }
    return pa.table(
        {each.name: columns.get(each.name, _default(each, n)) for each in fields(Record)}
    )


def _default(field: "Field[Any]", n: int) -> "pa.Array[Any]":
    """Return the column of a field that this ledger does not fill."""
    if field.type is float:
        return pa.nulls(n, _INSTANT)
    return pa.repeat(pa.scalar(field.default if field.default is not MISSING else ""), n)
