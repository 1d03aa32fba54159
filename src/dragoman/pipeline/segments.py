"""Reading the records of segments with Spark, from any storage that Spark can read."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dragoman.pipeline.manifest import SegmentRange
from dragoman.pipeline.schema import RECORD
from dragoman.pipeline.storage import join, spark_uri


def read_records(spark: SparkSession, source: str, ranges: Sequence[SegmentRange]) -> DataFrame:
    """Return the records of some segments; columns that an older version lacks are null."""
    reader, source = spark.read.schema(RECORD), spark_uri(source)
    whole = [join(source, r.segment.file) for r in ranges if r.after < r.segment.first]
    found = [reader.parquet(*whole)] if whole else []
    found += [
        reader.parquet(join(source, r.segment.file)).where(F.col("seq") > r.after)
        for r in ranges
        if r.after >= r.segment.first
    ]
    return reduce(DataFrame.unionAll, found)
