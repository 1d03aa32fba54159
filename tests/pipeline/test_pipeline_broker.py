"""A real broker with workers and clients: its ledger tells Spark what it counted itself."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.oracle import assert_totals
from tests.pipeline.records import read_records, rows
from tests.pipeline.test_pipeline_stream import assert_equal

from dragoman.cli.demo.steps import totals
from dragoman.pipeline.run import run
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.stream import stream
from dragoman.pipeline.tables import read_table
from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import DragomanError
from dragoman.testing.fabric import Fabric

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SERVICES = {"squares": "nfp", "others": "zss"}


@pytest.fixture(scope="module")
def until_end(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The export of a broker that worked, lost a worker, was killed and came back; its counters."""
    fabric = Fabric(tmp_path_factory.mktemp("fabric"))
    try:
        fabric.start_broker()
        for service, dialect in SERVICES.items():
            fabric.start_worker(dialect, service, f"{service}-1")
        fabric.wait_for([*SERVICES])
        work(fabric, "nfp", "others")
        fabric.kill_worker("others-1")
        fabric.kill_broker()
        fabric.start_broker()
        fabric.wait_for(["squares"])
        work(fabric, "dcp", "squares")
        counted = totals(fabric)
    finally:
        fabric.stop()
    return fabric.data / "sealed", counted


def work(fabric: Fabric, dialect: str, service: str) -> None:
    with Client(fabric.url(dialect)) as client:
        jobs = [client.submit(service, "square", n=n, timeout=60) for n in range(30)]
        assert [job.result(60) for job in jobs] == [n * n for n in range(30)]
        with pytest.raises(DragomanError, match="refused"):
            client.call(service, "refuse", timeout=60)


def test_batch_and_stream_agree_with_the_counters_of_the_broker_itself(
    spark: SparkSession, until_end: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    source, counted = until_end
    run(spark, str(source), str(tmp_path / "batch"))
    batch = TableStore(spark, str(tmp_path / "batch"))
    assert_totals(batch, read_records(source))
    # The broker answered in the middle of its history, with the question still open.
    then = read_table(batch, "jobs").where(f"ended_seq <= {counted['records']}")
    states = dict(rows(then.groupBy("state").count(), "state", "count"))
    assert states == {state: counted[state] for state in ("succeeded", "failed")}
    assert states["succeeded"] >= 60
    assert states["failed"] == 2
    assert rows(read_table(batch, "audit"), "rule", "words") == []
    half = batch.snapshot.seq // 2 + 1
    stream(
        spark, str(source), str(tmp_path / "stream"), every=None, most_rows=half
    ).awaitTermination()
    assert_equal(batch, TableStore(spark, str(tmp_path / "stream")))
