from datetime import date

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.records import NOON, frame, rows

from dragoman.model.record import Record
from dragoman.pipeline.events import SCHEMA, events

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_record_belongs_to_its_utc_day(spark: SparkSession) -> None:
    late = Record(2, NOON + 12 * 3600, "stopped")
    found = events(frame(spark, [Record(1, NOON + 12 * 3600 - 0.000001, "started"), late]))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    assert rows(found, "seq", "day") == [(1, date(2026, 1, 5)), (2, date(2026, 1, 6))]
