"""The gold tables against plain Python: the same history summed up by hand."""

import pytest
from pyspark.sql import SparkSession

from dragoman.pipeline.schema import columns
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tables import TABLES, digest, read_table, register, table_bytes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
SCHEMA = columns("""
    name string
    faults counts
    n bigint
""")


def test_equal_tables_have_equal_bytes_whatever_the_order(spark: SparkSession) -> None:
    found = [("a", {"x": 1}, 1), ("b", {}, None)]
    one = spark.createDataFrame(found, SCHEMA)
    two = spark.createDataFrame(found[::-1], SCHEMA).repartition(2)
    assert table_bytes(one) == table_bytes(two)
    other = spark.createDataFrame([("a", {"x": 2}, 1), ("b", {}, None)], SCHEMA)
    assert digest(one) != digest(other)


def test_every_table_can_be_asked_in_sql(spark: SparkSession, tables: TableStore) -> None:
    register(tables)
    for name, schema in TABLES.items():
        found = spark.sql(f"select * from {name}")
        assert found.schema.simpleString() == schema.simpleString()
    joined = "select count(*) from jobs j join assignments a using (job, submitted_at)"
    assert spark.sql(joined).collect()[0][0] == read_table(tables, "assignments").count()
