"""The Spark schema of a record, the groups of record kinds, and helpers for columns.

Names, order and types follow `model.record.Record`. Each table's module defines the
columns of that table.
"""

import dataclasses
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from dragoman.model.record import Kind, Record

_TYPES: Final[dict[str, DataType]] = {
    "bigint": LongType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "date": DateType(),
    "boolean": BooleanType(),
    "double": DoubleType(),
    "bigints": ArrayType(LongType()),
    "counts": MapType(StringType(), LongType()),
}


def columns(text: str) -> StructType:
    """Make a schema from lines `name type`; Spark's own parser would need a session."""
    pairs = (line.split() for line in text.strip().splitlines())
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


_SPARK_TYPES: Final[dict[object, DataType]] = {
    int: LongType(),
    str: StringType(),
    bool: BooleanType(),
    float: TimestampType(),
}

#: A segment's columns: the fields of a record. Floats are instants, in UTC; `submitted_at` and
#: `deadline_at` may be null.
RECORD: Final = StructType(
    [StructField(field.name, _SPARK_TYPES[field.type]) for field in dataclasses.fields(Record)]
)

#: The kinds that a job's row is folded from. Others (progress, late replies) change no row.
JOB_KINDS: Final = (
    Kind.SUBMITTED,
    Kind.BOUND,
    Kind.MOVED,
    Kind.DISPATCHED,
    Kind.ACCEPTED,
    Kind.REQUEUED,
    Kind.FORWARDED,
    Kind.GATHERED,
    Kind.ENDED,
    Kind.CANCEL_ASKED,
)
#: The kinds of a worker's session.
SESSION_KINDS: Final = (Kind.JOINED, Kind.RESYNCED, Kind.LEFT, Kind.OWNS)
#: The kinds after which an earlier session may have ended unseen.
BOUNDARY_KINDS: Final = (Kind.STARTED, Kind.STOPPED)


def cast_to(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with exactly the columns of a schema, in its order and types.

    As SQL text: each column object would cost several calls into the JVM.
    """
    casts = (f"cast({f.name} as {f.dataType.simpleString()}) as {f.name}" for f in schema.fields)
    return rows.selectExpr(*casts)


def struct_of(names: dict[str, str]) -> Column:
    """Put columns into one struct: `{field name: column}`.

    Aggregating one struct is much cheaper than aggregating each of its fields.
    """
    return F.struct(*[F.col(of).alias(name) for name, of in names.items()])


def is_kind(*kinds: Kind) -> Column:
    """Whether a record is of one of these kinds."""
    return F.col("kind").isin(*[kind.value for kind in kinds])


def span_us(start: Column, end: Column) -> Column:
    """Return the microseconds from one instant to another; null if one is null."""
    return F.unix_micros(end) - F.unix_micros(start)


def day_of(instant: Column) -> Column:
    """Return the UTC day of an instant; the Spark session is always in UTC."""
    return F.to_date(instant)
