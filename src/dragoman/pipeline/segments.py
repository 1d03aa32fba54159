"""Reading the records of segments with Spark."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dragoman.pipeline.manifest import SegmentRange
from dragoman.pipeline.places import place_of
from dragoman.pipeline.schema import RECORD
from dragoman.pipeline.storage import join


def read_records(spark: SparkSession, source: str, ranges: Sequence[SegmentRange]) -> DataFrame:
    """Return the records of some segments; columns that an older version lacks are null."""
    reader, place = spark.read.schema(RECORD), place_of(spark, source)
    place.fetch(each.segment.file for each in ranges)
    whole = [join(place.base, r.segment.file) for r in ranges if r.after < r.segment.first]
    found = [reader.parquet(*whole)] if whole else []
    found += [
        reader.parquet(join(place.base, r.segment.file)).where(F.col("seq") > r.after)
        for r in ranges
        if r.after >= r.segment.first
    ]
    return reduce(DataFrame.unionAll, found)


def forget_copies(spark: SparkSession, source: str) -> None:
    """Delete the copies of segments, if there are any, after they were read."""
    place_of(spark, source).keep(())
