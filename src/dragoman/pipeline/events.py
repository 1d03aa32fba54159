"""Bronze `events`: the typed records by UTC day. Append only."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructField, StructType

from dragoman.pipeline.schema import RECORD, cast_to, day_of

TABLE: Final = "events"
SCHEMA: Final = StructType([*RECORD.fields, StructField("day", DateType())])


def events(records: DataFrame) -> DataFrame:
    """Add the UTC day to records."""
    return cast_to(records.withColumn("day", day_of(F.col("at"))), SCHEMA)


def without_repeats(records: DataFrame) -> DataFrame:
    """Keep the smallest record of each sequence number, so that input order does not matter."""
    values = F.struct(*[c for c in records.columns if c != "seq"])
    kept = records.groupBy("seq").agg(F.min(values).alias("kept"))
    return kept.select("seq", "kept.*").select(*records.columns)
