"""Streams whose rows go to a service: once each, also when a batch is repeated."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import Score

from dragoman.spark import foreach_service
from dragoman.spark.sink import RowsFailed
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
Sink = Callable[[DataFrame, int], None]


def flow(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("x int").json(str(folder))


def put(folder: Path, name: str, *numbers: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text("".join(f'{{"x": {n}}}\n' for n in numbers))


def drain(rows: DataFrame, sink: Sink, checkpoint: Path) -> None:
    writer = rows.writeStream.foreachBatch(sink).trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def test_every_row_of_a_stream_is_handed_over_once(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str, tmp_path: Path
) -> None:
    sink = foreach_service(broker.url("nfp"), service, "double", run="flow", key="x")
    for name, numbers in (("a", range(5)), ("b", range(5, 9))):
        put(tmp_path / "in", name, *numbers)
        drain(flow(spark, tmp_path / "in"), sink, tmp_path / "checkpoint")
    assert score.asked == dict.fromkeys(range(9), 1)


def test_a_batch_that_is_repeated_does_not_repeat_the_work(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = spark.createDataFrame([(n,) for n in range(8)], "x int")
    sink = foreach_service(broker.url("nfp"), service, "double", run="again", key="x")
    sink(rows, 0)
    sink(rows.repartition(3), 0)
    assert set(score.asked.values()) == {1}
    sink(rows, 1)
    assert set(score.asked.values()) == {2}


def test_a_fault_stops_the_stream_and_names_itself(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str, tmp_path: Path
) -> None:
    put(tmp_path / "in", "a", 1, 2, 3)
    sink = foreach_service(broker.url("nfp"), service, "picky", run="strict")
    with pytest.raises(StreamingQueryException, match="2 task_failed: 1 is odd"):
        drain(flow(spark, tmp_path / "in"), sink, tmp_path / "checkpoint")
    with pytest.raises(RowsFailed, match="batch 7: 1 task_failed"):
        sink(spark.createDataFrame([(5,)], "x int"), 7)


def test_answers_can_be_kept_faults_and_all(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str, tmp_path: Path
) -> None:
    put(tmp_path / "in", "a", 1, 2, 3)
    kept: dict[int, str | None] = {}

    def keep(answered: DataFrame, batch: int) -> None:
        assert answered.count() == 3
        kept.update(
            (r["x"], r["answer"]["fault"] and r["answer"]["fault"]["code"])
            for r in answered.collect()
        )

    sink = foreach_service(broker.url("nfp"), service, "picky", run="kept", on_answers=keep)
    drain(flow(spark, tmp_path / "in"), sink, tmp_path / "checkpoint")
    assert kept == {1: "task_failed", 2: None, 3: "task_failed"}
    assert set(score.asked.values()) == {1}
