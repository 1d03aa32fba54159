"""A table enriched on a real cluster while a worker and an executor are killed.

A master and two Spark workers, a broker, and workers of three dialects, each a process. Every row
has exactly one answer, every row was one job, and the audit of the ledger finds nothing.
`DRAGOMAN_SPARK_ROWS=100000` sets the size of the table.
"""

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.interop.harness import Broker, Fleet, Process, until

from dragoman import Client
from dragoman.pipeline.run import run
from dragoman.pipeline.store import Store
from dragoman.pipeline.tables import read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ROWS = int(os.environ.get("DRAGOMAN_SPARK_ROWS", "10000"))
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "PYSPARK_PYTHON": sys.executable,
}
#: Lost workers are noticed soon, and nothing that is asked again is forgotten.
SETTINGS = """
[nfp]
beat_every = 0.5
missed_allowed = 6
[limits]
finished_jobs = 1000000
[ledger]
seal_age = 600
seal_records = 1000000
"""


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.end()


class Cluster:
    """A standalone cluster on free ports of the loopback."""

    def __init__(self, fleet: Fleet) -> None:
        deploy = "org.apache.spark.deploy"
        free = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = fleet.run(
            SPARK_CLASS, f"{deploy}.master.Master", *free, env=ENVIRONMENT, name="master"
        )
        master.until_it_says("Starting Spark master at", at_most=120)
        self.url = re.findall(r"Starting Spark master at (spark://\S+)", master.log)[0]
        self.workers = []
        for name in ("one", "two"):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(fleet.folder / name))
            words = (f"{deploy}.worker.Worker", *free, *room, self.url)
            self.workers.append(fleet.run(SPARK_CLASS, *words, env=ENVIRONMENT, name=name))
        for worker in self.workers:
            worker.until_it_says("Successfully registered with master", at_most=120)

    def executors(self) -> list[psutil.Process]:
        """Find the processes that do the work."""
        below = [c for w in self.workers for c in psutil.Process(w.pid).children(recursive=True)]
        return [
            each for each in below if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())
        ]

    def stop(self) -> None:
        """End it in good order, so that it ends its executors."""
        for worker in self.workers:
            worker.stop(at_most=60)


def succeeded(broker: Broker) -> int:
    with Client(broker.url("nfp")) as client:
        totals = client.call("mmi.service.broker", "show_totals", timeout=30)
    return int(totals["succeeded"])


def drive(fleet: Fleet, cluster: Cluster, broker: Broker, out: Path) -> Process:
    small = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    # Small batches: a killed executor loses some answers, and its rows are asked about again.
    small["spark.sql.execution.arrow.maxRecordsPerBatch"] = "1000"
    conf = [word for name, said in small.items() for word in ("--conf", f"{name}={said}")]
    place = ["--url", broker.url("nfp"), "--master", cluster.url, "--out", str(out)]
    words = ["-m", "examples.spark.enrich", *place, "--rows", str(ROWS), "--partitions", "4", *conf]
    return fleet.python(*words, env=ENVIRONMENT)


def test_every_row_has_one_answer_though_a_worker_and_an_executor_are_killed(
    fleet: Fleet, spark: SparkSession, tmp_path: Path
) -> None:
    links = dict.fromkeys(("nfp", "dcp", "zss", "zss_backend"), "127.0.0.1:0")
    broker = fleet.broker(links, SETTINGS)
    urls = [broker.url("nfp"), broker.url("dcp"), broker.url("zss_backend").replace("_backend", "")]
    urls += [broker.url("nfp")]
    workers = [
        fleet.dragoman("worker", "examples.spark.tasks", "--service", "grading", "--url", url)
        for url in urls
    ]
    cluster = Cluster(fleet)
    driver = drive(fleet, cluster, broker, tmp_path / "out")

    until(
        lambda: succeeded(broker) > ROWS // 10, f"work is done\n{driver.log[-3000:]}", at_most=300
    )
    workers[0].signal(signal.SIGKILL)
    until(lambda: succeeded(broker) > ROWS // 4, "work goes on", at_most=300)
    cluster.executors()[0].kill()
    assert driver.wait(at_most=600) == 0, driver.log[-3000:]
    assert f"{ROWS} rows, faults: none" in driver.log
    cluster.stop()
    for worker in workers[1:]:
        worker.stop()
    broker.stop(at_most=60)

    answered = spark.read.parquet(str(tmp_path / "out"))
    assert answered.count() == ROWS
    assert answered.select("order_id").distinct().count() == ROWS
    is_good = "grade.fault is null and grade.value.order_id = order_id"
    is_right = "abs(grade.value.tax - amount * 0.2) < 0.01"
    assert answered.where(is_good).where(is_right).count() == ROWS

    run(spark, str(broker.data / "sealed"), str(tmp_path / "tables"))
    store = Store(spark, str(tmp_path / "tables"))
    assert read_table(store, "audit").collect() == []
    graded = read_table(store, "jobs").where("service = 'grading'")
    assert {r["state"]: r["count"] for r in graded.groupBy("state").count().collect()} == {
        "succeeded": ROWS
    }
    used = {r[0] for r in graded.select("dialect_out").distinct().collect()}
    assert used == {"nfp", "dcp", "zss"}
    adopted = read_table(store, "events").where(F.col("kind") == "adopted").count()
    print(f"{ROWS} rows; {adopted} were asked about again and not run again")
