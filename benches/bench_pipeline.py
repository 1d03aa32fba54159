"""What the pipeline costs: a synthetic ledger through a whole run, an increment, and a stream.

`python -m benches pipeline` measures a million records. `python -m benches.bench_pipeline --events
1000000 10000000` measures any number of tens of thousands, with `--engine spark` or `embedded`
(DuckDB), and prints one JSON object for each.
"""

import argparse
import hashlib
import json
import math
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil
import pyarrow.parquet as pq

from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.embedded.run import follow, run_embedded
from dragoman.pipeline.queries import SparkQueries, TableQueries
from dragoman.pipeline.report import build_report
from dragoman.pipeline.run import RunSummary
from dragoman.pipeline.run import run as run_pipeline
from dragoman.pipeline.session import open_session
from dragoman.pipeline.snapshot import Snapshot, read_snapshot
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.stream import stream
from dragoman.pipeline.synth import synthesise

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

    def after(self, name: str) -> str:
        """Return the stage after one."""
        names = [*self.begun]
        return names[names.index(name) + 1]

    def between(self, one: str, two: str) -> float:
        return round(self.begun[two] - self.begun[one], 2)


class Engine(Protocol):
    """What makes the tables."""

    def run(self, source: str, tables: str, notice: Callable[[str], None]) -> RunSummary:
        """Read what is new."""

    def queries(self, tables: str) -> TableQueries:
        """Open the tables."""

    def jobs(self) -> int:
        """Return the number of Spark's jobs so far."""

    def stream(
        self, source: str, tables: str, notice: Callable[[Snapshot], None]
    ) -> Callable[[], None]:
        """Follow an export; return what stops it."""

    def close(self) -> None:
        """End it."""


class SparkEngine:
    """A Spark session, with the settings that the command line would choose."""

    def __init__(self, events: int, master: str, memory: str) -> None:
        self.spark = open_session(master, memory=memory, rows=events)

    def run(self, source: str, tables: str, notice: Callable[[str], None]) -> RunSummary:
        return run_pipeline(self.spark, source, tables, notice)

    def queries(self, tables: str) -> TableQueries:
        return SparkQueries(TableStore(self.spark, tables))

    def jobs(self) -> int:
        return len(self.spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    def stream(
        self, source: str, tables: str, notice: Callable[[Snapshot], None]
    ) -> Callable[[], None]:
        return stream(self.spark, source, tables, every=1, notice=notice).stop

    def close(self) -> None:
        self.spark.stop()


class EmbeddedEngine:
    """DuckDB in this process."""

    def run(self, source: str, tables: str, notice: Callable[[str], None]) -> RunSummary:
        return run_embedded(source, tables, notice)

    def queries(self, tables: str) -> TableQueries:
        return DuckQueries(tables)

    def jobs(self) -> int:
        return 0

    def stream(
        self, source: str, tables: str, notice: Callable[[Snapshot], None]
    ) -> Callable[[], None]:
        over = threading.Event()

        def wait(seconds: float) -> None:
            if over.wait(seconds):
                raise SystemExit

        words = {"every": 1.0, "notice": notice, "wait": wait}
        thread = threading.Thread(target=follow, args=(source, tables), kwargs=words, daemon=True)
        thread.start()

        def stop() -> None:
            over.set()
            thread.join()

        return stop

    def close(self) -> None:
        pass


class Ledger:
    """An export whose manifest lists only a part of its segments."""

    def __init__(self, folder: Path, events: int) -> None:
        self.folder = folder
        size = math.gcd(events, MORE)
        made = synthesise(folder, events + 2 * MORE, seed=7, segment_rows=size)
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


class Costs:
    """What each part of a measurement cost."""

    def __init__(self, meter: Meter, engine: Engine) -> None:
        self.meter, self.engine = meter, engine
        self.found: dict[str, dict[str, float]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure a block."""
        cpu, jobs, begun = self.meter.cpu(), self.engine.jobs(), time.monotonic()
        yield
        self.found[name] = {
            "seconds": round(time.monotonic() - begun, 1),
            "cpu_seconds": round(self.meter.cpu() - cpu, 1),
            "spark_jobs": self.engine.jobs() - jobs,
        }


def measure(
    work: Path, events: int, make_engine: Callable[[], Engine], *, with_stream: bool = True
) -> dict[str, Any]:
    ledger, tables = Ledger(work / "ledger", events), str(work / "tables")
    source, stages = str(ledger.folder), Stages()
    with Meter() as meter:
        before = meter.cpu()
        engine = make_engine()
        costs = Costs(meter, engine)
        costs.found["start"] = {"cpu_seconds": round(meter.cpu() - before, 1)}
        ledger.show(events)
        with costs.of("whole_run"):
            done = engine.run(source, tables, stages)
        ledger.show(events + MORE)
        with costs.of("incremental"):
            more = engine.run(source, tables, Stages())
        with costs.of("nothing_new"):
            engine.run(source, tables, Stages())
        with costs.of("report"):
            page = build_report(engine.queries(tables))
        wanted, found = ledger.totals(), table_totals(engine.queries(tables))
        fresh = freshness(engine, meter, ledger, tables) if with_stream else {}
        engine.close()
    costs.found["whole_run"] |= _rate(done, done.seconds)
    costs.found["incremental"] |= _rate(more, more.seconds)
    return {
        "records": done.records,
        "synth": ledger.synth,
        "bronze": _rate(done, stages.between("events", stages.after("events"))),
        "jobs_fold": _rate(done, stages.between("jobs", "sessions")),
        **costs.found,
        "peak_mib": meter.highest >> 20,
        "report_kib": len(page.encode()) >> 10,
        "stream": fresh,
        "totals": {"ledger": wanted, "tables": found, "equal": same(wanted, found)},
        "load": [round(x, 1) for x in psutil.getloadavg()],
    }


def _rate(done: RunSummary, seconds: float) -> dict[str, float]:
    return {
        "records": done.records,
        "seconds": round(seconds, 1),
        "records_per_s": round(done.records / seconds),
    }


def table_totals(store: TableQueries) -> dict[str, int]:
    """Return the totals of the tables."""
    kinds = store.rows("select kind, count(*) as n from events group by kind")
    found = {row["kind"]: int(row["n"]) for row in kinds}
    for sql in (
        "select count(*) as jobs, count(day) as jobs_ended from jobs",
        "select sum(submitted) as by_minute, sum(ended) as ended_by_minute,"
        " sum(refused) as refused_by_minute from service_minutes",
        "select sum(jobs) as billed from accounting",
    ):
        found |= {name: int(value) for name, value in store.rows(sql)[0].items()}
    return found


def same(ledger: dict[str, int], tables: dict[str, int]) -> bool:
    """Whether the totals of all tables equal those of the ledger."""
    return (
        all(tables[kind] == count for kind, count in ledger.items())
        and tables["jobs"] == tables["by_minute"] == ledger["submitted"]
        and tables["jobs_ended"] == tables["ended_by_minute"] == tables["billed"] == ledger["ended"]
        and tables["refused_by_minute"] == ledger["refused"]
    )


def freshness(engine: Engine, meter: Meter, ledger: Ledger, tables: str) -> dict[str, list[float]]:
    """Add segments while a stream runs; return the cost of each until it is in the tables."""
    newest = read_snapshot(tables).seq
    arrived = threading.Semaphore(0)
    stop = engine.stream(str(ledger.folder), tables, lambda _: arrived.release())
    waits: list[float] = []
    costs: list[float] = []
    for n in range(PIECES):
        begun, cpu = time.monotonic(), meter.cpu()
        ledger.seal(newest + n * PIECE)
        if not arrived.acquire(timeout=300):
            raise RuntimeError("no step of the stream within 300 s")
        waits.append(round(time.monotonic() - begun, 1))
        costs.append(round(meter.cpu() - cpu, 1))
    stop()
    return {"seconds": waits, "cpu_seconds": costs}


def run(events: int = 1_000_000) -> list[tuple[str, float, str]]:
    """Measure once, for the table of all benches."""
    with tempfile.TemporaryDirectory() as work:
        found = measure(Path(work), events, lambda: SparkEngine(events, "local[2]", "3g"))
    whole, more = found["whole_run"], found["incremental"]
    return [
        ("write a synthetic ledger", events / found["synth"]["seconds"], "records/s"),
        ("bronze", found["bronze"]["records_per_s"], "records/s"),
        ("fold of jobs and assignments", found["jobs_fold"]["records_per_s"], "records/s"),
        (f"whole run over {events:,} records", whole["seconds"], "s"),
        ("whole run", whole["records_per_s"], "records/s"),
        ("whole run, processor time", whole["cpu_seconds"], "s"),
        ("whole run, Spark jobs", whole["spark_jobs"], "jobs"),
        (f"incremental run, {more['records']:,} more", more["seconds"], "s"),
        ("peak memory, JVM and Python", found["peak_mib"], "MiB"),
        ("report", found["report_kib"], "KiB"),
        ("stream, sealed to in the tables", max(found["stream"]["seconds"][1:]), "s"),
        ("totals equal to the ledger's", float(found["totals"]["equal"]), "1 = yes"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="3g")
    parser.add_argument("--engine", choices=["spark", "embedded"], default="spark")
    parser.add_argument("--no-stream", action="store_true", help="leave out the stream")
    asked = parser.parse_args()
    if wrong := [n for n in asked.events if n % PIECE]:
        parser.error(f"--events takes multiples of {PIECE:,}, not {wrong[0]:,}")
    for events in asked.events:
        print(json.dumps(measure_once(events, asked)), flush=True)


def measure_once(events: int, asked: argparse.Namespace) -> dict[str, Any]:
    def make_engine() -> Engine:
        if asked.engine == "embedded":
            return EmbeddedEngine()
        return SparkEngine(events, asked.master, asked.memory)

    with tempfile.TemporaryDirectory() as work:
        found = measure(Path(work), events, make_engine, with_stream=not asked.no_stream)
    return {"engine": asked.engine} | found


if __name__ == "__main__":
    main()
