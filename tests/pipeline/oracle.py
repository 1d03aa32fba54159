"""The expected totals of the tables, counted in plain Python from the records."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyspark.sql import functions as F

from dragoman.model.record import Record
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import read_table

STATES = ("succeeded", "failed", "expired", "cancelled", "dead")


def ledger_totals(records: Iterable[Record]) -> dict[str, Any]:
    """Count records one by one; only the first end of a job counts."""
    kinds: Counter[str] = Counter()
    states: Counter[str] = Counter()
    ended: set[tuple[str, float]] = set()
    submitted: set[tuple[str, float]] = set()
    seen: set[int] = set()
    for record in records:
        if record.seq in seen:
            continue
        seen.add(record.seq)
        kinds[record.kind] += 1
        job = (record.job, record.submitted_at)
        if record.kind == "submitted":
            submitted.add(job)
        if record.kind == "ended" and job not in ended and job in submitted:
            ended.add(job)
            states[record.state] += 1
    return {"kinds": kinds, "states": states, "jobs": len(submitted), "open": submitted - ended}


def table_totals(store: TableStore) -> dict[str, Any]:
    """Return the totals of the tables; all tables that count jobs must agree."""
    events = read_table(store, "events").groupBy("kind").count().collect()
    jobs = read_table(store, "jobs")
    ended = jobs.where(F.col("day").isNotNull()).groupBy("state").count().collect()
    states = {row["state"]: row["count"] for row in ended}
    minutes = sums(store, "service_minutes", "submitted", "ended", *STATES)
    clients = sums(store, "clients", "submitted", *STATES)
    assert {s: minutes[s] for s in STATES} == {s: states.get(s, 0) for s in STATES}
    assert {s: clients[s] for s in STATES} == {s: states.get(s, 0) for s in STATES}
    assert minutes["submitted"] == clients["submitted"] == jobs.count()
    total = sum(states.values())
    assert minutes["ended"] == total
    for table in ("accounting", "bridges"):
        assert sums(store, table, "jobs")["jobs"] == total
    return {
        "kinds": {row["kind"]: row["count"] for row in events},
        "states": states,
        "jobs": jobs.count(),
        "open": jobs.where(F.col("day").isNull()).count(),
    }


def sums(store: TableStore, table: str, *names: str) -> dict[str, int]:
    found = read_table(store, table).agg(*[F.sum(name).alias(name) for name in names])
    return {name: value or 0 for name, value in found.collect()[0].asDict().items()}


def assert_totals(store: TableStore, records: Iterable[Record]) -> dict[str, Any]:
    """Compare the tables with the plain count; return the totals."""
    wanted, found = ledger_totals(records), table_totals(store)
    assert found["kinds"] == dict(wanted["kinds"])
    assert found["states"] == dict(wanted["states"])
    assert (found["jobs"], found["open"]) == (wanted["jobs"], len(wanted["open"]))
    return found
