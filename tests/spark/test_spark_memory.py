"""Bounds of one query's memory that need no running query."""

import pytest
from pyspark.sql import SparkSession

from dragoman.spark.memory import QueryTooLarge, check_constants, heap_bytes, spark_options

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_sizes_are_read_as_java_writes_them() -> None:
    assert [heap_bytes(size) for size in ("512m", "2G", "64kb", "7")] == [
        *(512 * 1024**2, 2 * 1024**3, 64 * 1024, 7)
    ]
    with pytest.raises(ValueError, match="write it as"):
        heap_bytes("much")


def test_a_result_takes_an_eighth_of_the_heap_or_twice_the_limit() -> None:
    assert spark_options("2g", 1024**3)["spark.driver.maxResultSize"] == str(1024**3 // 4)
    assert spark_options("2g", 1024**2)["spark.driver.maxResultSize"] == str(2 * 1024**2)


@pytest.mark.parametrize(
    "query",
    [
        "select repeat('x', 5000) as v",
        "select 1 where exists (select 1 from range(3) where cast(id as string) = space(5000))",
        "values (repeat('x', 5000))",
    ],
)
def test_a_constant_is_found_wherever_it_stands(spark: SparkSession, query: str) -> None:
    rows = spark.sql(query)
    check_constants(rows, 20_000)
    with pytest.raises(QueryTooLarge, match="2,000 are allowed"):
        check_constants(rows, 2_000)
