"""Runs and streams are killed and started again; the tables equal those of one run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.stream import stream
from dragoman.pipeline.tuning import SMALL_JAVA_OPTIONS

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.timeout(900)]
#: Settings for a short run: the process is killed soon.
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.defaultJavaOptions": SMALL_JAVA_OPTIONS,
}
QUICK = (
    *("--master", "local[1]", "--memory", "1g"),
    *[word for pair in SETTINGS.items() for word in ("--conf", "=".join(pair))],
)


def start(command: str, planted: Path, root: Path, *more: str) -> subprocess.Popen[bytes]:
    """Run a command of the pipeline, with its JVM, in its own process group."""
    words = ("-c", "from dragoman.cli.pipeline import app; app()", command)
    place = ("--source", str(planted), "--tables", str(root))
    return subprocess.Popen(
        [sys.executable, *words, *place, *QUICK, *more],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_when(process: subprocess.Popen[bytes], is_time: Callable[[], bool]) -> None:
    """Kill the whole group with signal 9 as soon as a condition holds."""
    while not is_time():
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"ended by itself with {process.returncode}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_run_that_is_killed_in_the_middle_is_done_again(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path
) -> None:
    root = tmp_path / "tables"
    process = start("run", planted, root)
    kill_when(process, (root / "assignments").exists)
    assert (root / "jobs").exists()
    assert TableStore(spark, str(root)).snapshot.seq == 0
    run(spark, str(planted), str(root))
    assert_equal(tables, TableStore(spark, str(root)))


def test_a_stream_that_is_killed_goes_on_where_it_was(
    spark: SparkSession, planted: Path, tables: TableStore, tmp_path: Path
) -> None:
    root = tmp_path / "tables"
    process = start("stream", planted, root, "--most-rows", "3500", "--every", "1")
    # The step is committed, but Spark may not have committed its batch yet.
    kill_when(process, lambda: any((root / "steps" / "_delta_log").glob("*.json")))
    assert TableStore(spark, str(root)).snapshot.seq >= 3_500
    stream(spark, str(planted), str(root), every=None, most_rows=3_500).awaitTermination()
    assert_equal(tables, TableStore(spark, str(root)))
