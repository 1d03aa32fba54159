"""Builders of small ledgers: each test states only the fields it is about."""

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from dragoman.ledger.manifest import Manifest, write_manifest
from dragoman.ledger.segments import to_batch, write_segment
from dragoman.model.record import Kind, Record
from dragoman.pipeline import control, job_fold, job_records

#: Monday, 5 January 2026, noon UTC.
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()


class History:
    """Builds numbered records, one second apart by default."""

    def __init__(self, start: float = NOON) -> None:
        self.records: list[Record] = []
        self.now = start

    def add(self, kind: Kind, after: float = 1.0, **fields: Any) -> Record:
        self.now += after
        record = Record(len(self.records) + 1, self.now, kind.value, **fields)
        self.records.append(record)
        return record

    def submit(self, job: str = "j", after: float = 1.0, **fields: Any) -> Record:
        about: dict[str, Any] = {
            "service": "math",
            "client": "nfp/anna",
            "dialect": "nfp",
            "state": "queued",
        }
        about |= {"target": "any", "nbytes": 10} | fields
        self.now += after
        return self.add(Kind.SUBMITTED, 0.0, job=job, submitted_at=self.now, **about)

    def about(self, first: Record, kind: Kind, after: float = 1.0, **fields: Any) -> Record:
        """Add a record about a submitted job."""
        same = ("job", "service", "client", "submitted_at", "deadline_at")
        return self.add(kind, after, **{n: getattr(first, n) for n in same} | fields)

    def dispatch(
        self, first: Record, worker: str = "w1", attempt: int = 1, **fields: Any
    ) -> Record:
        peer = f"zss/{worker}"
        held: dict[str, Any] = {
            "worker": worker,
            "peer": peer,
            "attempt": attempt,
            "dialect": "zss",
        }
        return self.about(first, Kind.DISPATCHED, **held | {"state": "running"} | fields)

    def requeue(self, first: Record, worker: str, attempt: int, fault: str) -> Record:
        held: dict[str, Any] = {"worker": worker, "peer": f"zss/{worker}", "attempt": attempt}
        held["dialect"] = "zss"
        return self.about(first, Kind.REQUEUED, state="queued", fault=fault, **held)

    def end(self, first: Record, worker: str = "w1", attempt: int = 1, **fields: Any) -> Record:
        held: dict[str, Any] = {"worker": worker, "peer": f"zss/{worker}", "attempt": attempt}
        held["nbytes"] = 5
        return self.about(first, Kind.ENDED, **held | {"state": "succeeded"} | fields)

    def join(self, worker: str = "w1", after: float = 1.0) -> Record:
        return self._session(Kind.JOINED, worker, after, detail="math")

    def leave(self, worker: str = "w1", after: float = 1.0, **fields: Any) -> Record:
        return self._session(Kind.LEFT, worker, after, **{"detail": "said good-bye"} | fields)

    def own(self, worker: str, *resources: str) -> Record:
        return self._session(Kind.OWNS, worker, 1.0, detail="\n".join(resources))

    def resync(self, worker: str = "w1") -> Record:
        return self._session(Kind.RESYNCED, worker, 1.0, detail="math")

    def _session(self, kind: Kind, worker: str, after: float, **fields: Any) -> Record:
        return self.add(kind, after, worker=worker, peer=f"zss/{worker}", dialect="zss", **fields)

    def frame(self, spark: SparkSession) -> DataFrame:
        return frame(spark, self.records)


def frame(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    """Make a data frame of records, with the exporter's own columns."""
    table = pa.Table.from_batches([to_batch([astuple(r) for r in records])])
    return spark.createDataFrame(table)


def export(folder: Path, records: Sequence[Record], *cuts: int) -> str:
    """Export records as segments that end at the given positions; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = [0, *cuts, len(records)]
    segments = [
        write_segment(folder, [to_batch([astuple(r) for r in records[a:b]])], lambda _: None)
        for a, b in itertools.pairwise(edges)
        if a < b
    ]
    write_manifest(folder, Manifest(segments=segments), lambda _: None)
    return str(folder)


def listed(folder: Path) -> list[dict[str, Any]]:
    """Return the manifest's segments."""
    found: list[dict[str, Any]] = json.loads((folder / "manifest.json").read_text())["segments"]
    return found


def relist(folder: Path, segments: Iterable[dict[str, Any]]) -> None:
    """Replace the manifest."""
    (folder / "manifest.json").write_text(json.dumps({"segments": [*segments]}))


def renumbered(records: Iterable[Record], start: int = 1) -> list[Record]:
    """Renumber records."""
    return [replace(record, seq=start + n) for n, record in enumerate(records)]


def rows(found: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return some columns of a data frame as sorted tuples."""
    return sorted(tuple(row) for row in found.select(*names).collect())


def annotated(spark: SparkSession, history: History) -> DataFrame:
    """Return the annotated job records of a history."""
    records = history.frame(spark)
    known = control.control(records)
    marks = sorted(row.seq for row in control.boundaries(known).collect())
    return job_records.annotate(job_records.job_records(records, control.spans(known), marks))


def folded(spark: SparkSession, history: History) -> DataFrame:
    """Return the folded jobs of a history."""
    found = job_fold.fold_jobs(job_records.until_end(annotated(spark, history)))
    return found.where("given is not null")


def read_records(folder: Path) -> list[Record]:
    """Return the records of an export, without Spark."""
    tables = [pq.read_table(folder / segment["file"]) for segment in listed(folder)]
    instants = ("at", "submitted_at", "deadline_at")
    found: list[Record] = []
    for row in pa.concat_tables(tables).to_pylist():
        times = {n: row[n].timestamp() if row[n] else 0.0 for n in instants}
        found.append(Record(**row | times))
    return found
