"""The same command elsewhere: on a standalone cluster of processes, and through Spark Connect."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.pipeline.store import TableStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
ENVIRONMENT = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


@contextmanager
def daemon(*words: str, memory: str, says: str) -> Iterator[str]:
    """Run one of Spark's daemons; give what its log says once it serves."""
    environment = ENVIRONMENT | {"SPARK_DAEMON_MEMORY": memory}
    with subprocess.Popen(
        [str(SPARK_CLASS), *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        found = next(filter(None, (re.search(says, line) for line in process.stderr)), None)
        # A log that nobody reads fills its pipe and holds the daemon up.
        rest = Thread(target=process.stderr.read)
        rest.start()
        try:
            assert found, f"ended without saying {says!r}"
            yield found[1]
        finally:
            process.terminate()
            rest.join(timeout=60)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A cluster on free ports of the loopback, gone at the end."""
    deploy = "org.apache.spark.deploy"
    free = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    begun, joined = (
        r"Starting Spark master at (spark://\S+)",
        r"(Successfully registered with master)",
    )
    with ExitStack() as stack:
        url = stack.enter_context(
            daemon(f"{deploy}.master.Master", *free, memory="256m", says=begun)
        )
        for name in ("one", "two"):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name), url)
            worker = daemon(f"{deploy}.worker.Worker", *free, *room, memory="256m", says=joined)
            stack.enter_context(worker)
        yield url


@pytest.fixture
def connect() -> Iterator[str]:
    """A Spark Connect server on a free port of the loopback, gone at the end."""
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    words = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", "--class", server]
    binding = "spark.connect.grpc.binding"
    settings = {f"{binding}.address": "127.0.0.1", f"{binding}.port": "0"}
    settings |= {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    words += [word for item in settings.items() for word in ("--conf", "=".join(item))]
    begun = r"Spark Connect server started at: (\S+)"
    with daemon(*words, "spark-internal", memory="1g", says=begun) as address:
        yield f"sc://{address}"


def run_pipeline(*words: str) -> str:
    """Run the command as a user would; return what it printed."""
    command = [sys.executable, "-c", "from dragoman.cli.pipeline import app; app()", "run", *words]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


@pytest.mark.skipif(
    "DRAGOMAN_SPARK_CLUSTER" not in os.environ,
    reason="starts five Java machines: run make spark-cluster",
)
def test_a_cluster_gives_the_tables_of_one_machine(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path, master: str
) -> None:
    root = tmp_path / "tables"
    place = ["--source", str(planted), "--tables", str(root), "--master", master, "--memory", "1g"]
    small = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
    said = run_pipeline(*place, *small)
    assert "read records 1 to 6,000" in said
    # One record was dropped, one written twice: the first is not there, the second counts once.
    assert "events 5,999" in said
    assert_equal(tables, TableStore(spark, str(root)))


def test_a_connect_server_gives_the_tables_of_one_machine(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path, connect: str
) -> None:
    root = tmp_path / "tables"
    said = run_pipeline("--source", str(planted), "--tables", str(root), "--remote", connect)
    assert "read records 1 to 6,000" in said
    assert_equal(tables, TableStore(spark, str(root)))
