"""What a row costs: `call_service` beside the bare SDK client, in one run.

A broker and one NFP worker, each in its own process; the same calls of the same task. The client is
`AsyncClient`, with as many open calls as Spark has in all. `DRAGOMAN_BENCH_ROWS` sets the rows
(10000), `DRAGOMAN_BENCH_CORES` Spark's Python processes (2).
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from dragoman import AsyncClient, Client
from dragoman.dialects.listeners import LISTENERS
from dragoman.model.content import Call
from dragoman.pipeline.session import open_session
from dragoman.spark import call_service
from dragoman.spark.settings import SparkSettings
from dragoman.spark.worker import make_worker

Row: TypeAlias = tuple[str, float, str]

ROWS = int(os.environ.get("DRAGOMAN_BENCH_ROWS", "10000"))
CORES = int(os.environ.get("DRAGOMAN_BENCH_CORES", "2"))
WINDOW = 128
TASK = "grade"
DRAGOMAN = [sys.executable, "-c", "from dragoman.cli.main import main; main()"]


def run() -> list[Row]:
    with fabric() as url:
        spark = open_session(f"local[{CORES}]", memory="1g")
        rows = spark.range(0, ROWS, 1, CORES).selectExpr("id as order_id", "1.5D as amount").cache()
        rows.count()

        def answered(name: str, **options: Any) -> DataFrame:
            return call_service(rows, url, "grading", TASK, run=name, window=WINDOW, **options)

        # The first call of each starts Spark's Python processes and compiles its plan.
        answered("warm").limit(10).collect()
        bare = asyncio.run(_bare(url))
        spark_rate = _rate(lambda: answered("one").write.format("noop").mode("overwrite").save())
        again = _rate(lambda: answered("one").write.format("noop").mode("overwrite").save())
        chunks = _rate(
            lambda: (
                call_service(rows, url, "grading", "grade_all", run="chunks", rows_per_call=100)
                .write.format("noop")
                .mode("overwrite")
                .save()
            )
        )
        stops = _stops(spark, url)
        spark.stop()
    return [
        (f"bare AsyncClient, {ROWS:,} calls, {WINDOW * CORES} open", bare, "calls/s"),
        (f"call_service, {CORES} Python processes, {WINDOW} open in each", spark_rate, "rows/s"),
        ("call_service, of the bare client", spark_rate / bare, "times"),
        ("the same rows again: known, not run", again, "rows/s"),
        ("call_service, 100 rows a call", chunks, "rows/s"),
        ("a cancelled query: until Spark has stopped, worst of 5", max(stops), "s"),
    ]


def _rate(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return ROWS / (time.perf_counter() - begun)


async def _bare(url: str) -> float:
    """Make the same calls with the client only."""
    numbers = iter(range(ROWS))
    async with AsyncClient(url) as client:

        async def lane() -> None:
            for n in numbers:
                call = Call(TASK, (), {"order_id": n, "amount": 1.5}, timeout=600.0)
                await client.order("grading", call).result(610.0)

        begun = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(WINDOW * CORES)))
    return ROWS / (time.perf_counter() - begun)


def _stops(spark: SparkSession, url: str) -> list[float]:
    """Cancel endless queries of a worker; return the seconds until Spark ended each."""
    endless = "select count(*) from range(0, 100000000000000, 1, 2) where sqrt(id) % 7 = 8"
    tracker = spark.sparkContext.statusTracker()
    worker, tasks = make_worker(url, "spark", spark, SparkSettings())
    took = []
    with worker, Client(url) as client:
        for _ in range(5):
            job = client.submit("spark", "sql", endless)
            while not tracker.getActiveJobsIds():
                time.sleep(0.01)
            begun = time.perf_counter()
            job.cancel(timeout=60)
            while tracker.getActiveJobsIds():
                time.sleep(0.01)
            took.append(time.perf_counter() - begun)
    tasks.close()
    return took


@contextmanager
def fabric() -> Iterator[str]:
    """Run a broker and a worker for the length of a block."""
    with TemporaryDirectory(prefix="dragoman-bench-") as folder:
        ready = Path(folder, "ready.json")
        off = [
            w
            for n in (each.name.replace("_", "-") for each in LISTENERS if each.name != "nfp")
            for w in (f"--{n}", "off")
        ]
        up = [
            "up",
            "--data",
            f"{folder}/data",
            "--ready-file",
            str(ready),
            "--nfp",
            "tcp://127.0.0.1:0",
        ]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        broker = subprocess.Popen([*DRAGOMAN, *up, *off], **quiet)
        try:
            while not ready.exists():
                time.sleep(0.05)
            url = json.loads(ready.read_text())["nfp"].replace("tcp://", "nfp://")
            words = ["worker", "examples.spark.tasks", "--service", "grading", "--url", url]
            worker = subprocess.Popen([*DRAGOMAN, *words], **quiet)
            try:
                yield url
            finally:
                worker.terminate()
                worker.wait(30)
        finally:
            broker.terminate()
            broker.wait(30)
