"""Bronze `events`: the typed records by UTC day. Append only; `bronze` writes it."""

from typing import Final

from pyspark.sql.types import DateType, StructField, StructType

from dragoman.pipeline.schema import RECORD

TABLE: Final = "events"
SCHEMA: Final = StructType([*RECORD.fields, StructField("day", DateType())])
