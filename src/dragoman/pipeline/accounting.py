"""Gold `accounting`: usage and bill by client, principal, service and UTC day of the end.

The bill is a whole number of millionths of a credit. So the sum over days, clients or batches does
not depend on the order of adding. The tariff is defined here only.
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
    """Sum the jobs that have ended."""
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
