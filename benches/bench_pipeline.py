"""What the pipeline costs: a synthetic ledger through a whole run, an increment, and a stream.

`python -m benches pipeline` measures a million records. `python -m benches.bench_pipeline --events
1000000 10000000` measures any number and prints one JSON object for each.
"""

import argparse
import hashlib
import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.functions import sum as total

from dragoman.pipeline.queries import SparkQueries
from dragoman.pipeline.report import build_report
from dragoman.pipeline.run import RunSummary
from dragoman.pipeline.run import run as run_pipeline
from dragoman.pipeline.session import open_session
from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.stream import stream
from dragoman.pipeline.synth import synthesise
from dragoman.pipeline.tables import read_table

#: Records of the second run, and of each segment that the stream is given.
MORE = 250_000
PIECE = 10_000
PIECES = 5


class Meter:
    """Measures memory and CPU time of this process and its descendants."""

    def __init__(self) -> None:
        self.highest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Meter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.highest = max(self.highest, int(sum(_each(lambda p: p.memory_info().rss))))

    def cpu(self) -> float:
        """Return the CPU seconds so far."""
        return sum(_each(lambda p: sum(p.cpu_times()[:2])))


def _each(ask: Callable[[psutil.Process], float]) -> list[float]:
    me = psutil.Process()
    found: list[float] = []
    for process in (me, *me.children(recursive=True)):
        try:
            found.append(ask(process))
        except psutil.NoSuchProcess:
            continue
    return found


class Stages:
    """Records the start of each stage of a run; from `jobs` on some overlap."""

    def __init__(self) -> None:
        self.begun: dict[str, float] = {}

    def __call__(self, name: str) -> None:
        self.begun[name] = time.monotonic()

    def between(self, one: str, two: str) -> float:
        return round(self.begun[two] - self.begun[one], 2)


class Ledger:
    """An export whose manifest lists only a part of its segments."""

    def __init__(self, folder: Path, events: int) -> None:
        self.folder = folder
        made = synthesise(folder, events + 2 * MORE, seed=7)
        self.synth = {"seconds": round(made.seconds, 1), "bytes": made.bytes}
        self.whole = json.loads((folder / "manifest.json").read_text())["segments"]

    def show(self, upto: int) -> None:
        """List the segments up to a record."""
        self.relist([s for s in self.whole if s["last"] <= upto])

    def relist(self, segments: list[dict[str, Any]]) -> None:
        fresh = self.folder / "manifest.json.new"
        fresh.write_text(json.dumps({"segments": segments}))
        os.replace(fresh, self.folder / "manifest.json")
        self.listed = segments

    def seal(self, after: int) -> None:
        """Add a small segment, as a running broker would."""
        whole = next(s for s in self.whole if s["first"] <= after + 1 <= s["last"])
        table = pq.read_table(self.folder / whole["file"]).slice(after + 1 - whole["first"], PIECE)
        name = f"segments/piece-{after + 1}.parquet"
        pq.write_table(table, self.folder / name, compression="zstd")
        data = (self.folder / name).read_bytes()
        entry = {"file": name, "first": after + 1, "last": after + PIECE, "rows": PIECE}
        entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        self.relist([*self.listed, entry])

    def totals(self) -> dict[str, int]:
        """Count the records of each kind, without Spark."""
        found: Counter[str] = Counter()
        for segment in self.listed:
            kinds = pq.read_table(self.folder / segment["file"], columns=["kind"])["kind"]
            found.update(str(kind) for kind in kinds.to_pylist())
        return dict(found)


def measure(work: Path, events: int, master: str, memory: str) -> dict[str, Any]:
    ledger, tables = Ledger(work / "ledger", events), str(work / "tables")
    source = str(ledger.folder)
    with Meter() as meter:
        spark = open_session(master, memory=memory)
        ledger.show(events)
        stages, before = Stages(), meter.cpu()
        done = run_pipeline(spark, source, tables, stages)
        cpu = meter.cpu() - before
        ledger.show(events + MORE)
        before = meter.cpu()
        more = run_pipeline(spark, source, tables)
        more_cpu = meter.cpu() - before
        begun = time.monotonic()
        page = build_report(SparkQueries(TableStore(spark, tables)))
        report = {"kib": len(page.encode()) >> 10, "seconds": round(time.monotonic() - begun, 1)}
        store = TableStore(spark, tables)
        wanted, found = ledger.totals(), table_totals(store)
        fresh = freshness(spark, ledger, tables)
        spark.stop()
    return {
        "records": done.records,
        "synth": ledger.synth,
        "bronze": _rate(done, stages.between("events", "carried records")),
        "jobs_fold": _rate(done, stages.between("jobs", "sessions")),
        "whole_run": _rate(done, done.seconds) | {"cpu_seconds": round(cpu, 1)},
        "incremental": _rate(more, more.seconds) | {"cpu_seconds": round(more_cpu, 1)},
        "peak_mib": meter.highest >> 20,
        "report": report,
        "freshness_seconds": fresh,
        "totals": {"ledger": wanted, "tables": found, "equal": same(wanted, found)},
        "load": [round(x, 1) for x in psutil.getloadavg()],
    }


def _rate(done: RunSummary, seconds: float) -> dict[str, float]:
    return {
        "records": done.records,
        "seconds": round(seconds, 1),
        "records_per_s": round(done.records / seconds),
    }


def table_totals(store: TableStore) -> dict[str, int]:
    """Return the totals of the tables."""
    kinds = read_table(store, "events").groupBy("kind").count().collect()
    jobs = read_table(store, "jobs")
    found = {row["kind"]: row["count"] for row in kinds}
    found["jobs"] = jobs.count()
    found["jobs_ended"] = jobs.where(col("day").isNotNull()).count()
    sums = [total("submitted"), total("ended"), total("refused")]
    row = read_table(store, "service_minutes").agg(*sums).collect()[0]
    found |= dict(zip(("by_minute", "ended_by_minute", "refused_by_minute"), row, strict=True))
    found["billed"] = read_table(store, "accounting").agg(total("jobs")).collect()[0][0]
    return found


def same(ledger: dict[str, int], tables: dict[str, int]) -> bool:
    """Whether the totals of all tables equal those of the ledger."""
    return (
        all(tables[kind] == count for kind, count in ledger.items())
        and tables["jobs"] == tables["by_minute"] == ledger["submitted"]
        and tables["jobs_ended"] == tables["ended_by_minute"] == tables["billed"] == ledger["ended"]
        and tables["refused_by_minute"] == ledger["refused"]
    )


def freshness(spark: SparkSession, ledger: Ledger, tables: str) -> list[float]:
    """Add segments while a stream runs; return the seconds until each is in the tables."""
    newest = TableStore(spark, tables).snapshot.seq
    arrived = threading.Semaphore(0)

    def notice(_: Snapshot) -> None:
        arrived.release()

    query = stream(spark, str(ledger.folder), tables, every=1, notice=notice)
    waits: list[float] = []
    for n in range(PIECES):
        ledger.seal(newest + n * PIECE)
        begun = time.monotonic()
        if not arrived.acquire(timeout=300):
            raise RuntimeError(f"no step of the stream within 300 s: {query.status}")
        waits.append(round(time.monotonic() - begun, 1))
    query.stop()
    return waits


def run(events: int = 1_000_000) -> list[tuple[str, float, str]]:
    """Measure once, for the table of all benches."""
    with tempfile.TemporaryDirectory() as work:
        found = measure(Path(work), events, "local[2]", "3g")
    whole, more = found["whole_run"], found["incremental"]
    return [
        ("write a synthetic ledger", events / found["synth"]["seconds"], "records/s"),
        ("bronze", found["bronze"]["records_per_s"], "records/s"),
        ("fold of jobs and assignments", found["jobs_fold"]["records_per_s"], "records/s"),
        (f"whole run over {events:,} records", whole["seconds"], "s"),
        ("whole run", whole["records_per_s"], "records/s"),
        ("whole run, processor time", whole["cpu_seconds"], "s"),
        (f"incremental run, {more['records']:,} more", more["seconds"], "s"),
        ("peak memory, JVM and Python", found["peak_mib"], "MiB"),
        ("report", found["report"]["kib"], "KiB"),
        ("stream, sealed to in the tables", max(found["freshness_seconds"][1:]), "s"),
        ("totals equal to the ledger's", float(found["totals"]["equal"]), "1 = yes"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="3g")
    asked = parser.parse_args()
    for events in asked.events:
        with tempfile.TemporaryDirectory() as work:
            found = measure(Path(work), events, asked.master, asked.memory)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
