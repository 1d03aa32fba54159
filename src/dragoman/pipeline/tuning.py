"""Spark settings by the number of records: a run ends early if it prepares little.

Most of a short run is preparation: Spark compiles code for each plan, the JVM compiles that code
twice, work is split and replanned after each stage. The tables are the same with all settings; a
test compares them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

#: The largest number of records that counts as small.
SMALL_ROWS: Final = 50_000
#: One partition, expressions interpreted instead of compiled.
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: Records in one partition.
PARTITION_ROWS: Final = 250_000
#: The largest number of records for which the second, slow compiler of the JVM does not pay.
SHORT_ROWS: Final = 4_000_000
#: Only the fast JIT compiler; for small data also a collector without threads of its own. With one
#: compiler a JVM keeps 48 MB for compiled code, which a stream fills: then nothing is compiled.
SHORT_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
SMALL_JAVA_OPTIONS: Final = f"-XX:+UseSerialGC {SHORT_JAVA_OPTIONS}"


def java_options(rows: int) -> str:
    """Return the options of a JVM that starts for a run over so many records."""
    if rows > SHORT_ROWS:
        return ""
    return SMALL_JAVA_OPTIONS if rows <= SMALL_ROWS else SHORT_JAVA_OPTIONS


def partitions(spark: SparkSession, rows: int) -> int:
    """Return the number of partitions for so many records: at most that of the session."""
    most = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(1, min(most, -(-rows // PARTITION_ROWS)))


def set_tuning(spark: SparkSession, rows: int) -> dict[str, str]:
    """Apply the settings for a number of records; return the former values.

    A step knows how many records it has, so Spark need not replan after each stage.
    """
    medium = {
        "spark.sql.shuffle.partitions": str(partitions(spark, rows)),
        "spark.sql.adaptive.enabled": "false",
    }
    settings = _SMALL if rows <= SMALL_ROWS else medium
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
