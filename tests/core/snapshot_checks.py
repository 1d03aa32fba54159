"""Checks that a snapshot and the records after it are as good as all records."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart
from dragoman.core.needed_records import NeededRecords
from dragoman.core.recovery import fold
from dragoman.core.snapshots import read_snapshot, write_snapshot
from dragoman.model.record import Record


def encoded(rows: Iterable[Any]) -> list[bytes]:
    """Encode rows, as a file would."""
    return [msgspec.msgpack.encode(row) for row in rows]


def decoded(rows: Iterable[bytes]) -> Iterable[Any]:
    return map(msgspec.msgpack.decode, rows)


def assert_same_fold(records: Sequence[Record], count: int, rows: Sequence[bytes]) -> None:
    """Assert that rows of the first records, and the other records, give the fold of all."""
    store = fold(records[count:], store=read_snapshot(decoded(rows)))
    folded = fold(records)
    assert encoded(write_snapshot(store)) == encoded(write_snapshot(folded))
    assert_same_members(store, folded)


#: Members that no record says: queues, timers, bodies, and links between objects.
NOT_RECORDED = {
    *("parts", "job", "request", "body", "cancellers", "queued_in", "entry_id", "queued_client"),
    *("refused_by", "slots", "start_timer", "deadline_timer", "queue_timer", "cancel_timer"),
    *("unbound_timer", "patience_timer", "retry_timer", "run_timer"),
}


def members(found: Job | JobPart) -> dict[str, Any]:
    """Return all recorded members by name, so that a new one cannot be left out of snapshots."""
    return {
        name: getattr(found, name) for name in type(found).__slots__ if name not in NOT_RECORDED
    }


def assert_same_members(one: JobStore, two: JobStore) -> None:
    for job, same in zip(one.jobs.values(), two.jobs.values(), strict=True):
        assert members(job) == members(same)
        for part, other in zip(job.parts, same.parts, strict=True):
            assert members(part) == members(other)


def assert_snapshots_suffice(records: Sequence[Record]) -> None:
    """Take a snapshot after none, a half and all of the records."""
    for count in (0, len(records) // 2, len(records)):
        rows = encoded(write_snapshot(fold(records[:count])))
        assert_same_fold(records, count, rows)


def recorded(store: JobStore) -> dict[str, Any]:
    """Return what a store holds, but for counts and what ticks repeat only in part."""
    totals, *jobs = write_snapshot(store)
    schedules, dead, paused, (rules, _), uniques, drained = totals.pop("queue")
    del totals["counts"]
    names = [schedule[:2] for schedule in schedules]
    totals["joins"].sort()
    # Results of workers that hold no work are never asked for.
    holders = {part.peer for job in store.jobs.values() for part in job.open_parts()}
    totals["results"] = {p: seq for p, seq in totals["results"].items() if p in holders}
    flow = paused, rules, uniques, drained
    return {**totals, "queue": (names, sorted(dead), *flow), "jobs": jobs}


def assert_needed_records_suffice(records: Sequence[Record]) -> None:
    """Remove the records that are not needed: none, half and all of them; replay the rest."""
    whole = fold(records)
    is_needed = NeededRecords(whole)
    for first in (0, len(records) // 2, len(records)):
        pinned = [record for record in records[:first] if is_needed(record)]
        cut = fold([*pinned, *records[first:]], store=JobStore(is_cut=first > 0))
        for name, found in recorded(cut).items():
            if name not in {"last_seq", "last_at"} or first < len(records):
                assert found == recorded(whole)[name], f"{name}, cut before {first + 1}"
