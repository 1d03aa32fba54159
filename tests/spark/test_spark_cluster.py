"""A table enriched on a real cluster while a worker and an executor are killed.

A master and two Spark workers, a broker, and workers of three dialects, each a process. Every row
has exactly one answer, every row was one job, and the audit of the ledger finds nothing.
`DRAGOMAN_SPARK_ROWS=100000` sets the size of the table.
"""

import os
import re
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.interop.harness import Broker, Fleet, Process, until

from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import read_table

ROWS = int(os.environ.get("DRAGOMAN_SPARK_ROWS", "10000"))
#: Long enough for a busy machine.
PATIENCE = 600.0 + ROWS / 100
pytestmark = [pytest.mark.spark, pytest.mark.timeout(2 * PATIENCE)]
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "PYSPARK_PYTHON": sys.executable,
}
#: Nothing that is asked about again is forgotten.
SETTINGS = """
[limits]
finished_jobs = 1000000
[ledger]
seal_age = 600
seal_records = 1000000
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.end()


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        # It has ended meanwhile.
        return ""


class Cluster:
    """A standalone cluster on free ports of the loopback."""

    def __init__(self, fleet: Fleet) -> None:
        deploy = "org.apache.spark.deploy"
        free = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = fleet.run(
            SPARK_CLASS, f"{deploy}.master.Master", *free, env=ENVIRONMENT, name="master"
        )
        master.until_it_says("Starting Spark master at", at_most=300)
        self.url = re.findall(r"Starting Spark master at (spark://\S+)", master.log)[0]
        self.workers = []
        for name in ("one", "two"):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(fleet.folder / name))
            words = (f"{deploy}.worker.Worker", *free, *room, self.url)
            self.workers.append(fleet.run(SPARK_CLASS, *words, env=ENVIRONMENT, name=name))
        for worker in self.workers:
            worker.until_it_says("Successfully registered with master", at_most=300)

    def executors(self) -> list[psutil.Process]:
        """Find the processes that do the work."""
        below = [c for w in self.workers for c in psutil.Process(w.pid).children(recursive=True)]
        return [each for each in below if "CoarseGrainedExecutorBackend" in command(each)]

    def stop(self) -> None:
        """End it in good order, so that it ends its executors."""
        for worker in self.workers:
            worker.stop(at_most=60)


def count(broker: Broker, kind: str) -> int:
    """Count records of the service in the ledger itself: asking the broker would be jobs, too."""
    with closing(sqlite3.connect(f"file:{broker.ledger_file}?mode=ro", uri=True)) as ledger:
        asked = "select count(*) from records where kind = ? and service = 'grading'"
        return int(ledger.execute(asked, (kind,)).fetchone()[0])


def until_graded(broker: Broker, driver: Process, share: float) -> None:
    def claim() -> bool:
        assert driver.is_running, driver.log[-3000:]
        return count(broker, "ended") >= ROWS * share

    until(claim, f"{share:.0%} of the rows are graded", PATIENCE, every=0.5)


def drive(fleet: Fleet, cluster: Cluster, broker: Broker, out: Path) -> Process:
    small = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    # Small batches: a killed executor loses some answers, and its rows are asked about again.
    small["spark.sql.execution.arrow.maxRecordsPerBatch"] = "1000"
    conf = [word for name, said in small.items() for word in ("--conf", f"{name}={said}")]
    place = ["--url", broker.url("nfp"), "--master", cluster.url, "--out", str(out)]
    words = ["-m", "examples.spark.enrich", *place, "--rows", str(ROWS), "--partitions", "4", *conf]
    return fleet.python(*words, env=ENVIRONMENT)


def staff(fleet: Fleet, broker: Broker) -> list[Process]:
    """Start workers of three dialects, two of the first: it is to lose one."""
    backend = broker.url("zss_backend").replace("zss_backend", "zss")
    urls = [broker.url("nfp"), broker.url("dcp"), backend, broker.url("nfp")]
    words = ("worker", "examples.spark.tasks", "--service", "grading")
    workers = [fleet.dragoman(*words, "--url", url) for url in urls]
    until(lambda: count(broker, "joined") >= len(urls), "all have joined", at_most=300, every=0.5)
    return workers


def test_every_row_has_one_answer_though_a_worker_and_an_executor_are_killed(
    fleet: Fleet, spark: SparkSession, tmp_path: Path
) -> None:
    links = dict.fromkeys(("nfp", "dcp", "zss", "zss_backend"), "127.0.0.1:0")
    broker = fleet.broker(links, SETTINGS)
    workers = staff(fleet, broker)
    cluster = Cluster(fleet)
    driver = drive(fleet, cluster, broker, tmp_path / "out")

    until_graded(broker, driver, 0.1)
    workers[0].signal(signal.SIGKILL)
    until_graded(broker, driver, 0.3)
    cluster.executors()[0].kill()
    assert driver.wait(PATIENCE) == 0, driver.log[-3000:]
    assert f"{ROWS} rows, faults: none" in driver.log
    cluster.stop()
    for worker in workers[1:]:
        worker.stop()
    broker.stop(at_most=60)

    assert_answered(spark, tmp_path / "out")
    run(spark, str(broker.data / "sealed"), str(tmp_path / "tables"))
    assert_accounted(TableStore(spark, str(tmp_path / "tables")))


def assert_answered(spark: SparkSession, out: Path) -> None:
    answered = spark.read.parquet(str(out))
    assert answered.count() == ROWS
    assert answered.select("order_id").distinct().count() == ROWS
    is_good = "grade.fault is null and grade.value.order_id = order_id"
    is_right = "abs(grade.value.tax - amount * 0.2) < 0.01"
    assert answered.where(is_good).where(is_right).count() == ROWS


def assert_accounted(store: TableStore) -> None:
    """No promise was broken; each row was one job, also those that were asked about again."""
    assert read_table(store, "audit").collect() == []
    jobs = read_table(store, "jobs").where("service = 'grading'")
    states = {r["state"]: r["count"] for r in jobs.groupBy("state").count().collect()}
    assert states == {"succeeded": ROWS}
    used = {r[0] for r in jobs.select("dialect_out").distinct().collect()}
    assert used == {"nfp", "dcp", "zss"}
    again = read_table(store, "events").where("kind = 'adopted'").count()
    assert again > 0
    moved = jobs.where("requeues > 0").count()
    print(
        f"{ROWS} rows: {again} asked about again and not run again, {moved} moved to a new worker"
    )
