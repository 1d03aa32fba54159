"""The list of functions of read-only SQL."""

import pytest
from pyspark.sql import SparkSession

from dragoman.spark.functions import FUNCTIONS, TABLE_FUNCTIONS
from dragoman.spark.plans import items

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_every_listed_function_is_one_of_spark(spark: SparkSession) -> None:
    state = spark._jsparkSession.sessionState()
    known = {str(each.funcName()) for each in items(state.functionRegistry().listFunction())}
    assert {*FUNCTIONS} - known == set()
    tables = {str(each.funcName()) for each in items(state.tableFunctionRegistry().listFunction())}
    assert {*TABLE_FUNCTIONS} - tables <= {"sequence"}


def test_functions_that_reach_beyond_their_arguments_are_not_listed() -> None:
    reaching = """
        reflect java_method try_reflect from_xml schema_of_xml from_json from_csv from_avro
        from_protobuf schema_of_json schema_of_csv xpath input_file_name current_user version
    """
    assert {*reaching.split()} & FUNCTIONS == set()
