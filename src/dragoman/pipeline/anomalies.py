"""Gold `anomalies`: minutes that fall outside their own history.

The statistic is the modified z-score: how far a value lies from the median of its history, in
units of 1.4826 times the median absolute deviation. The history of a minute is the minutes of
the same service and dialect in the `HISTORY_HOURS` whole hours before its own hour. With fewer
than `LEAST_HISTORY` such minutes, the minute gets no score. The deviation is at least `FLOOR_SHARE`
of the median plus the metric's own floor, so a flat history does not turn small changes into
anomalies. A score above `THRESHOLD`, either way, is an anomaly.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns

TABLE: Final = "anomalies"
HISTORY_HOURS: Final = 24
LEAST_HISTORY: Final = 60
THRESHOLD: Final = 8.0
FLOOR_SHARE: Final = 0.1
#: The metrics, each with the fixed part of its smallest deviation.
FLOORS: Final = {
    "submitted": 3.0,
    "failures": 1.0,
    "backlog": 3.0,
    "queue_p99_us": 50_000.0,
    "run_p99_us": 100_000.0,
}
SCHEMA: Final = columns("""
    service string
    dialect string
    metric string
    minute timestamp
    value double
    median double
    deviation double
    score double
    day date
""")
_SERIES: Final = ("service", "dialect", "metric")


def anomalies(minutes: DataFrame, since: datetime) -> DataFrame:
    """Score the minutes from `since` on; `minutes` also holds their history."""
    values = _values(minutes).withColumn("hour", F.date_trunc("hour", "minute"))
    history = _history(values, since)
    score = (F.col("value") - F.col("median")) / F.col("deviation")
    recent = values.where(F.col("minute") >= F.lit(since)).join(history, [*_SERIES, "hour"])
    outside = recent.withColumn("score", score).where(F.abs("score") > THRESHOLD)
    return cast_to(outside, SCHEMA)


def _values(minutes: DataFrame) -> DataFrame:
    failures = F.col("failed") + F.col("expired") + F.col("dead") + F.col("refused")
    rows = minutes.withColumn("failures", failures).select(
        "service", "dialect", "minute", "day", *[F.col(m).cast("double") for m in FLOORS]
    )
    found = rows.unpivot(["service", "dialect", "minute", "day"], [*FLOORS], "metric", "value")
    return found.where(F.col("value").isNotNull())


def _history(values: DataFrame, since: datetime) -> DataFrame:
    """Return the median and the deviation that the minutes of each hour are compared with.

    Minutes are collected by hour first: the window then slides over a few arrays instead of over
    every minute of every day.
    """
    number = F.floor(F.unix_seconds("hour") / 3600).cast("bigint")
    hours = values.groupBy(*_SERIES, "hour").agg(F.collect_list("value").alias("values"))
    before = Window.partitionBy(*_SERIES).orderBy(number).rangeBetween(-HISTORY_HOURS, -1)
    history = F.sort_array(F.flatten(F.collect_list("values").over(before)))
    wanted = F.col("hour") >= F.date_trunc("hour", F.lit(since))
    known = hours.withColumn("history", history).where(
        wanted & (F.size("history") >= LEAST_HISTORY)
    )
    known = known.withColumn("median", _middle("history"))
    away = F.transform("history", lambda value: F.abs(value - F.col("median")))
    known = known.withColumn("away", F.sort_array(away))
    floors = F.create_map(*[F.lit(x) for pair in FLOORS.items() for x in pair])
    floor = floors[F.col("metric")] + F.abs("median") * FLOOR_SHARE
    deviation = F.greatest(_middle("away") * 1.4826, floor)
    return known.select(*_SERIES, "hour", "median", deviation.alias("deviation"))


def _middle(name: str) -> Column:
    """Return the median of a sorted array; null of an empty one.

    `get` accepts any position: Spark may evaluate it before the test of the array's length.
    """
    lower, upper = f"int((size({name}) - 1) div 2)", f"int(size({name}) div 2)"
    return F.expr(f"(get({name}, {lower}) + get({name}, {upper})) / 2")
