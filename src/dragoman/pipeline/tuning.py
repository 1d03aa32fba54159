"""Spark settings for small data: start early rather than run fast.

Most of a small run is preparation: Spark compiles code for each plan, splits work and replans after
each stage. For a few thousand records that costs more than it saves. The tables are the same with
both settings; a test compares them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

#: The largest number of records that counts as small.
SMALL_ROWS: Final = 50_000
#: One partition, no replanning, expressions interpreted instead of compiled.
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: Only the fast JIT compiler, and a garbage collector without threads of its own.
SMALL_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def set_tuning(spark: SparkSession, rows: int) -> dict[str, str]:
    """Apply the settings for a number of records; return the former values."""
    settings = _SMALL if rows <= SMALL_ROWS else {}
    former = {name: spark.conf.get(name) or "" for name in settings}
    _set(spark, settings)
    return former


@contextmanager
def tuned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Apply the settings for a number of records, and restore the former ones at the end."""
    former = set_tuning(spark, rows)
    try:
        yield
    finally:
        _set(spark, former)


def _set(spark: SparkSession, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        spark.conf.set(name, value)
