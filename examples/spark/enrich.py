"""Enrich a table with the answers of a service, on one machine or a cluster.

python -m examples.spark.enrich --url nfp://127.0.0.1:5555 --rows 100000 --out enriched
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from dragoman.pipeline.session import open_session
from dragoman.spark import call_service


def orders(spark: SparkSession, count: int, partitions: int) -> DataFrame:
    """Generate some orders."""
    amount = (col("id") * 7919 % 100_000) / 100
    return spark.range(0, count, 1, partitions).select(
        col("id").alias("order_id"), amount.alias("amount")
    )


def enrich(rows: DataFrame, url: str) -> DataFrame:
    """Return orders with their grades. Each order is graded once, even if Spark repeats a task."""
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
    """Write the enriched table; print the number of rows and faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="nfp://127.0.0.1:5555")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--out", default="enriched")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in arguments.conf)
    spark = open_session(arguments.master, memory="1g", settings=settings)
    enrich(orders(spark, arguments.rows, arguments.partitions), arguments.url).write.mode(
        "overwrite"
    ).parquet(arguments.out)
    found = spark.read.parquet(arguments.out)
    faults = found.where("grade.fault is not null").groupBy("grade.fault.code").count().collect()
    print(f"{found.count()} rows, faults: {dict(map(tuple, faults)) or 'none'}")
    spark.stop()


if __name__ == "__main__":
    main()
