"""Frames in, answers out: every row has exactly one, however often Spark runs it."""

from datetime import date
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.conftest import Score

from dragoman.spark import call_service
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(F.col("id").cast("int").alias("x"))


def answers(frame: DataFrame, column: str = "answer") -> dict[Any, Any]:
    return {row["x"]: row[column] for row in frame.collect()}


def test_every_row_gets_its_answer_beside_its_own_columns(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = numbers(spark, 500).withColumn("name", F.concat(F.lit("n"), "x"))
    answered = call_service(
        rows, broker.url("nfp"), service, "double", columns=["x"], key="x", returns="int"
    )
    assert answered.columns == ["x", "name", "answer"]
    found = answered.collect()
    assert sorted((r["x"], r["name"], r["answer"]["value"]) for r in found) == sorted(
        (n, f"n{n}", 2 * n) for n in range(500)
    )
    assert all(row["answer"]["fault"] is None for row in found)
    assert len(score.asked) == 500


def test_a_frame_that_is_evaluated_again_is_answered_without_running_again(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    answered = call_service(numbers(spark, 100), broker.url("nfp"), service, "double")
    assert answered.count() == 100
    assert {x: a["value"] for x, a in answers(answered).items()} == {
        n: str(2 * n) for n in range(100)
    }
    assert set(score.asked.values()) == {1}
    call_service(numbers(spark, 100, 3), broker.url("nfp"), service, "double").count()
    assert set(score.asked.values()) == {2}


def test_a_named_run_is_one_run_in_whatever_partitions(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    for partitions in (1, 3):
        rows = numbers(spark, 60, partitions)
        found = call_service(
            rows, broker.url("http"), service, "double", key=["x"], run="nightly", returns="long"
        )
        assert answers(found)[59]["value"] == 118
    assert set(score.asked.values()) == {1}


def test_a_fault_is_the_rows_own(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = numbers(spark, 10)
    found = answers(call_service(rows, broker.url("nfp"), service, "picky", returns="int"))
    assert {x: a["value"] for x, a in found.items()} == {n: None if n % 2 else n for n in range(10)}
    assert found[3]["fault"].asDict() == {
        "code": "task_failed",
        "message": "3 is odd",
        "definite": True,
    }


def test_a_task_that_spark_runs_again_does_not_run_the_work_again(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    answered = call_service(numbers(spark, 80), broker.url("nfp"), service, "double", key="x")

    def broken(batches: Any) -> Any:
        for batch in batches:
            if batch.num_rows:
                raise RuntimeError("the task is lost after its calls were made")
            yield batch

    with pytest.raises(PySparkException, match="the task is lost"):
        answered.mapInArrow(broken, answered.schema).collect()
    assert len(score.asked) > 0
    assert len(answers(answered)) == 80
    assert set(score.asked.values()) == {1}


def test_several_rows_can_go_in_one_call(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = numbers(spark, 25, 1)
    found = answers(
        call_service(rows, broker.url("nfp"), service, "many", rows_per_call=10, returns="int")
    )
    assert {x: a["value"] for x, a in found.items()} == {n: 2 * n for n in range(25)}
    assert score.asked == {10: 2, 5: 1}


def test_a_list_of_another_length_is_a_fault_of_every_row(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = numbers(spark, 4, 1)
    frame = call_service(rows, broker.url("nfp"), service, "say", rows_per_call=4)
    assert answers(frame)[0]["fault"] is None
    frame = call_service(rows, broker.url("nfp"), service, "double", rows_per_call=3)
    assert {a["fault"]["code"] for a in answers(frame).values()} == {"task_failed"}


def test_equal_rows_without_a_key_are_one_call_and_with_one_are_several(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = numbers(spark, 6, 1).select((F.col("x") % 2).alias("what"), "x")
    for key, calls in ((None, 2), ("x", 6)):
        score.asked.clear()
        frame = call_service(
            rows, broker.url("nfp"), service, "say", columns=["what"], key=key, returns="int"
        )
        assert {x: a["value"] for x, a in answers(frame).items()} == {n: n % 2 for n in range(6)}
        assert score.asked["say"] == calls


def test_columns_of_all_kinds_arrive_and_come_back(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    frame = spark.createDataFrame(
        [(1, date(2026, 1, 5), b"\x00\xff", {"a": 1}, ["p", None])],
        "x int, day date, raw binary, tags map<string, int>, names array<string>",
    )
    what = F.struct("day", "raw", "tags", "names")
    kind = "struct<day: string, raw: binary, tags: map<string, int>, names: array<string>>"
    found = call_service(
        frame, broker.url("nfp"), service, "say", columns={"what": what}, returns=kind
    )
    assert answers(found)[1]["value"].asDict(recursive=True) == {
        "day": "2026-01-05",
        "raw": bytearray(b"\x00\xff"),
        "tags": {"a": 1},
        "names": ["p", None],
    }


def test_a_dialect_without_keys_must_be_allowed(
    spark: SparkSession, broker: LocalBroker, score: Score, service: str
) -> None:
    rows = numbers(spark, 5)
    with pytest.raises(ValueError, match="dcp carries no idempotency keys"):
        call_service(rows, broker.url("dcp"), service, "double")
    frame = call_service(
        rows, broker.url("dcp"), service, "double", at_least_once=True, returns="int"
    )
    assert {x: a["value"] for x, a in answers(frame).items()} == {n: 2 * n for n in range(5)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"into": "x"}, "there is already a column 'x'"),
        ({"columns": []}, "at least one column"),
        ({"rows_per_call": 0}, "at least 1"),
    ],
)
def test_impossible_options_are_refused_at_once(
    spark: SparkSession, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        call_service(numbers(spark, 1), "nfp://127.0.0.1:1", "s", **options)
    twice = numbers(spark, 1).select("x", "x")
    with pytest.raises(ValueError, match="several columns are called x"):
        call_service(twice, "nfp://127.0.0.1:1", "s")
