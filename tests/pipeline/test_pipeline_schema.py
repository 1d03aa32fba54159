from dataclasses import fields

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from dragoman.ledger.segments import SEGMENT_SCHEMA
from dragoman.model.record import Record
from dragoman.pipeline.schema import RECORD, columns
from dragoman.pipeline.tables import TABLES


def test_the_columns_are_the_fields_of_the_record_in_order() -> None:
    assert RECORD.fieldNames() == [field.name for field in fields(Record)]


def test_the_types_are_those_of_the_exported_segments() -> None:
    ours = to_arrow_schema(RECORD, timezone="UTC")
    assert [(f.name, f.type) for f in ours] == [(f.name, f.type) for f in SEGMENT_SCHEMA]
    assert ours.field("at").type == pa.timestamp("us", tz="UTC")


def test_a_schema_is_made_of_lines() -> None:
    made = columns("""
        job string
        faults counts
    """)
    assert made.simpleString() == "struct<job:string,faults:map<string,bigint>>"


def test_every_table_has_its_day_last() -> None:
    assert {schema.fieldNames()[-1] for schema in TABLES.values()} == {"day"}
