import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.records import History, rows

from dragoman.pipeline.control import control
from dragoman.pipeline.resources import SCHEMA, resources
from dragoman.pipeline.sessions import base_sessions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_a_resource_is_owned_until_it_is_left_out_or_its_session_ends(spark: SparkSession) -> None:
    history = History()
    history.join("w1")
    history.own("w1", "a", "b")
    history.own("w1", "b", "c")
    history.own("w1", "b", "a")
    history.leave("w1")
    known = control(history.frame(spark))
    found = resources(known, base_sessions(known))
    assert found.schema.simpleString() == SCHEMA.simpleString()
    start = F.round(F.unix_seconds("since_at") - F.lit(1_767_614_400)).cast("int")
    end = F.round(F.unix_seconds("until_at") - F.lit(1_767_614_400)).cast("int")
    spans = found.withColumns({"from": start, "to": end})
    assert rows(spans, "resource", "from", "to") == [
        ("a", 2, 3),
        ("a", 4, 5),
        ("b", 2, 5),
        ("c", 3, 4),
    ]
