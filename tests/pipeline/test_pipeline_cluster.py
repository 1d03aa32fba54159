"""The same command on a real standalone cluster: a master and two workers, each a process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.pipeline.store import Store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
ENVIRONMENT = os.environ | {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "PYSPARK_PYTHON": sys.executable,
}


def start(*words: str) -> subprocess.Popen[str]:
    command = [str(SPARK_CLASS), *words]
    return subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], pattern: str) -> str:
    """Read a daemon's log up to a line that says what is wanted."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"ended without saying {pattern!r}")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A cluster on free ports of the loopback, gone at the end."""
    deploy = "org.apache.spark.deploy"
    free = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    daemons = [start(f"{deploy}.master.Master", *free)]
    try:
        url = wait_for(daemons[0], r"Starting Spark master at (spark://\S+)")
        for name in ("one", "two"):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name))
            daemons.append(start(f"{deploy}.worker.Worker", *free, *room, url))
            wait_for(daemons[-1], r"(Successfully registered with master)")
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.communicate(timeout=60)


def test_a_cluster_gives_the_tables_of_one_machine(
    spark: SparkSession, planted: Path, tables: Store, tmp_path: Path, master: str
) -> None:
    root = tmp_path / "tables"
    words = [sys.executable, "-c", "from dragoman.cli.pipeline import app; app()", "run"]
    place = ["--source", str(planted), "--tables", str(root), "--master", master, "--memory", "1g"]
    small = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
    done = subprocess.run(
        [*words, *place, *small], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "read records 1 to 6,000" in done.stdout
    # One record was dropped, one written twice: the first is not there, the second counts once.
    assert "events 5,999" in done.stdout
    assert_equal(tables, Store(spark, str(root)))
