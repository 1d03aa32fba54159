"""Gold `accounting`: what each client used of each service on each UTC day, and the bill for it.

The bill is in millionths of a credit, in whole numbers, so that adding up days, clients or
batches in any order gives the same sum. The tariff is stated here and nowhere else.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns

TABLE: Final = "accounting"
SCHEMA: Final = columns("""
    client string
    principal string
    service string
    jobs bigint
    succeeded bigint
    dispatches bigint
    run_us bigint
    request_bytes bigint
    result_bytes bigint
    bill bigint
    day date
""")

#: Millionths of a credit.
PER_JOB: Final = 100
PER_RUN_SECOND: Final = 1_000
PER_MEBIBYTE: Final = 50


def accounting(ended: DataFrame) -> DataFrame:
    """Sum up jobs that have ended."""
    sums = ("dispatches", "run_us", "request_bytes", "result_bytes")
    used = ended.groupBy("day", "client", "principal", "service").agg(
        F.count(F.lit(1)).alias("jobs"),
        F.count_if(F.col("state") == "succeeded").alias("succeeded"),
        *[F.sum(name).alias(name) for name in sums],
    )
    bill = (
        F.col("jobs") * PER_JOB
        + F.floor(F.col("run_us") * PER_RUN_SECOND / 1_000_000)
        + F.floor((F.col("request_bytes") + F.col("result_bytes")) * PER_MEBIBYTE / (1 << 20))
    )
    return cast_to(used.withColumn("bill", bill), SCHEMA)
