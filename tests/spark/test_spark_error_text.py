"""Errors of Spark in one line that says where."""

import logging

import pytest
from pyspark.sql import SparkSession

from dragoman.spark.error_text import explain
from dragoman.spark.guard import parse

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "select 1 +",
            "line 1, column 11: Syntax error at or near end of input. [PARSE_SYNTAX_ERROR]",
        ),
        ("select 1\nfrm t", "line 2, column 5: Syntax error at or near 't'.*[PARSE_SYNTAX_ERROR]"),
        ("select id,\n  nam from range(3)", "line 2, column 3: .*`nam`.* [UNRESOLVED_COLUMN"),
        ("select * from\nnowhere", "line 2, column 1: .*`nowhere` cannot be found"),
        ("select foo(1)", "line 1, column 8: there is no function foo.*[UNRESOLVED_ROUTINE]"),
        (
            "select 1,\n 1/(id - 1) from range(3)",
            "line 2, column 2: Division by zero.*DIVIDE_BY_ZERO",
        ),
        ("select :y", "line 1, column 8: .*unbound parameter: y.*UNBOUND_SQL_PARAMETER"),
    ],
)
@pytest.mark.parametrize("way", ["collect", "toArrow"])
def test_an_error_says_where_in_the_statement_it_is(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, query: str, expected: str, way: str
) -> None:
    caplog.set_level(logging.CRITICAL, "SQLQueryContextLogger")

    def ask() -> None:
        parse(spark, query)
        getattr(spark.sql(query, args={"x": 1}), way)()

    with pytest.raises(Exception, match=r"\S") as error:
        ask()
    words = explain(error.value, query)
    for part in expected.split(".*"):
        assert part in words
    assert "\n" not in words
    assert "SQLSTATE" not in words


def test_an_error_of_ours_is_its_own_words() -> None:
    assert explain(ValueError("what\nelse")) == "what"
