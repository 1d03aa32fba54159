"""Gold `bridges`: jobs, bytes and times by client dialect, worker dialect and UTC day.

`dialect_out` is empty for jobs that were never dispatched.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns

TABLE: Final = "bridges"
SCHEMA: Final = columns("""
    dialect_in string
    dialect_out string
    jobs bigint
    succeeded bigint
    unmappable bigint
    request_bytes bigint
    result_bytes bigint
    queue_us bigint
    run_us bigint
    total_p50_us bigint
    total_p99_us bigint
    day date
""")


def bridges(ended: DataFrame) -> DataFrame:
    """Sum the jobs that have ended."""
    share = F.percentile("total_us", F.array(F.lit(0.5), F.lit(0.99)))
    summed = ended.groupBy("day", "dialect_in", "dialect_out").agg(
        F.count(F.lit(1)).alias("jobs"),
        F.count_if(F.col("state") == "succeeded").alias("succeeded"),
        F.count_if(F.col("fault") == "unmappable").alias("unmappable"),
        *[F.sum(n).alias(n) for n in ("request_bytes", "result_bytes", "queue_us", "run_us")],
        share.alias("share"),
    )
    shares = {
        "total_p50_us": F.round(F.col("share")[0]),
        "total_p99_us": F.round(F.col("share")[1]),
    }
    return cast_to(summed.withColumns(shares), SCHEMA)
