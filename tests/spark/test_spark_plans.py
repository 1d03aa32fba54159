"""Walks over real plans of Spark."""

import pytest
from pyspark.sql import SparkSession

from dragoman.spark.guard import parse
from dragoman.spark.plans import items, nodes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_every_operator_is_found_also_in_subqueries_and_common_tables(spark: SparkSession) -> None:
    query = "with a as (select 1 from t) select * from a where exists (select 1 from u)"
    found = [
        ".".join(str(part) for part in items(node.multipartIdentifier()))
        for node in nodes(parse(spark, query))
        if node.nodeName() == "UnresolvedRelation"
    ]
    assert sorted(found) == ["a", "t", "u"]
