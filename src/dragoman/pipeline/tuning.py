"""How Spark is set for little data: to begin soon rather than to run fast.

Most of what Spark does in a small run is preparation: compiling code for every plan, splitting
work, looking at what came out before going on. A few thousand records are through before any of
that has paid. The tables are the same either way; a test compares them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

#: Up to so many records are little.
SMALL_ROWS: Final = 50_000
#: Plans are run as they are, in one piece, by Spark's interpreter.
_LITTLE: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: The JVM compiles quickly rather than well, and collects garbage without threads for it.
SMALL_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def set_tuning(spark: SparkSession, rows: int) -> dict[str, str]:
    """Set a session for so many records; return what was set before."""
    settings = _LITTLE if rows <= SMALL_ROWS else {}
    former = {name: spark.conf.get(name) or "" for name in settings}
    _set(spark, settings)
    return former


@contextmanager
def tuned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Set a session for so many records, and back again."""
    former = set_tuning(spark, rows)
    try:
        yield
    finally:
        _set(spark, former)


def _set(spark: SparkSession, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
