"""What the pipeline costs: synthetic ledgers through one whole run, and one step more.

Prints one JSON object for each size: seconds and records a second of every stage, the peak memory
of the driver with its JVM, and the cost of an incremental run.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from dragoman.pipeline.manifest import head
from dragoman.pipeline.report import build_report
from dragoman.pipeline.run import run
from dragoman.pipeline.segments import read_manifest
from dragoman.pipeline.session import open_session
from dragoman.pipeline.store import Store
from dragoman.pipeline.synth import synthesise


class PeakMemory:
    """Watches this process and everything it started."""

    def __init__(self) -> None:
        self.highest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._over.wait(0.5):
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.highest = max(self.highest, total)


class Stages:
    """Notes when each stage of a run began."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name, self._begun = "", time.monotonic()

    def __call__(self, name: str) -> None:
        now = time.monotonic()
        if self._name:
            self.seconds[self._name] = round(now - self._begun, 1)
        self._name, self._begun = name, now


def measure(work: Path, events: int, more: int, master: str, memory: str) -> dict[str, Any]:
    source, tables = work / "ledger", work / "tables"
    made = synthesise(source, events + more, seed=7)
    manifest = source / "manifest.json"
    whole = json.loads(manifest.read_text())
    first = [s for s in whole["segments"] if s["last"] <= events]
    manifest.write_text(json.dumps({"segments": first}))
    with PeakMemory() as peak:
        spark = open_session(master, memory=memory)
        stages = Stages()
        done = run(spark, str(source), str(tables), stages)
        stages("")
        manifest.write_text(json.dumps(whole))
        again = Stages()
        next_one = run(spark, str(source), str(tables), again)
        again("")
        page = _timed(lambda: build_report(Store(spark, str(tables))))
        newest = head(read_manifest(spark, str(source)))
        spark.stop()
    return {
        "records": done.records,
        "synth": {"seconds": round(made.seconds, 1), "bytes": made.bytes},
        "whole_run": {"seconds": round(done.seconds, 1), "records_per_s": round(done.rate)},
        "stages": stages.seconds,
        "records_per_s": {
            name: round(done.records / stages.seconds[name]) for name in ("events", "jobs")
        },
        "incremental": {"records": next_one.records, "seconds": round(next_one.seconds, 1)},
        "incremental_stages": again.seconds,
        "peak_mib": peak.highest >> 20,
        "report": {"kib": len(page[0].encode()) >> 10, "seconds": round(page[1], 1)},
        "upto": newest,
        "load": [round(x, 1) for x in psutil.getloadavg()],
    }


def _timed(work: Callable[[], str]) -> tuple[str, float]:
    begun = time.monotonic()
    return work(), time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--more", type=int, default=250_000, help="records of the second run")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="3g")
    asked = parser.parse_args()
    for events in asked.events:
        with tempfile.TemporaryDirectory() as work:
            found = measure(Path(work), events, asked.more, asked.master, asked.memory)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
