"""Enrich a table by a service of the fabric, on one machine or a cluster.

python -m examples.spark.enrich --url nfp://127.0.0.1:5555 --rows 100000 --out enriched
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from dragoman.pipeline.session import open_session
from dragoman.spark import call_service


def orders(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Make up some orders."""
    amount = (col("id") * 7919 % 100_000) / 100
    return spark.range(0, count, 1, partitions).select(
        col("id").alias("order_id"), amount.alias("amount")
    )


def enrich(rows: DataFrame, url: str) -> DataFrame:
    """Return orders with their grades. An order is graded once, however often Spark runs it."""
    return call_service(
        rows,
        url,
        "grading",
        "grade",
        key="order_id",
        returns="struct<band: string, tax: double, order_id: bigint>",
        into="grade",
        run="orders of the day",
    )


def main() -> None:
    """Write the enriched table, and say how it went."""
    said = argparse.ArgumentParser(description=__doc__)
    said.add_argument("--url", default="nfp://127.0.0.1:5555")
    said.add_argument("--rows", type=int, default=10_000)
    said.add_argument("--out", default="enriched")
    said.add_argument("--master", default="local[*]")
    said.add_argument("--partitions", type=int, default=8)
    said.add_argument("--conf", action="append", default=[])
    asked = said.parse_args()
    settings = dict(pair.split("=", 1) for pair in asked.conf)
    spark = open_session(asked.master, memory="1g", settings=settings)
    enrich(orders(spark, asked.rows, asked.partitions), asked.url).write.mode("overwrite").parquet(
        asked.out
    )
    found = spark.read.parquet(asked.out)
    faults = found.where("grade.fault is not null").groupBy("grade.fault.code").count().collect()
    print(f"{found.count()} rows, faults: {dict(map(tuple, faults)) or 'none'}")
    spark.stop()


if __name__ == "__main__":
    main()
