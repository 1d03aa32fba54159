"""A Python step for the tests of registered pipelines."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def total(frames: dict[str, DataFrame], least: int) -> DataFrame:
    """Sum up the answers above a bound."""
    value = F.col("answer.value")
    return frames["doubled"].where(value >= least).agg(F.sum(value).alias("total"))


def nothing(frames: dict[str, DataFrame], **_: Any) -> None:
    """Forget to return something."""
