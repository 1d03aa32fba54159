"""Silver `resources`: who owned what, from when to when.

An `owns` record states everything its worker owns from then on; a resource is owned until a
later one leaves it out, or the session ends. Rows settle with their session.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.control import of_sessions
from dragoman.pipeline.schema import cast_to, columns, is_kind
from dragoman.pipeline.sessions import KEY

TABLE: Final = "resources"
SCHEMA: Final = columns("""
    resource string
    worker string
    peer string
    session bigint
    since_seq bigint
    since_at timestamp
    until_at timestamp
    day date
""")


def resources(control: DataFrame, stays: DataFrame) -> DataFrame:
    """Fold `owns` records into stretches of ownership."""
    said = of_sessions(control).where(is_kind(Kind.OWNS) & F.col("session").isNotNull())
    in_order = Window.partitionBy(*KEY).orderBy("seq")
    said = said.withColumns(
        {"number": F.row_number().over(in_order), "next_at": F.lead("at").over(in_order)}
    )
    owned = said.withColumn("resource", F.explode(F.array_distinct(F.split("detail", "\n"))))
    owned = owned.where(F.col("resource") != "")
    # Consecutive statements that name a resource are one stretch.
    same = Window.partitionBy(*KEY, "resource").orderBy("seq")
    owned = owned.withColumn("stretch", F.col("number") - F.row_number().over(same))
    folded = owned.groupBy(*KEY, "resource", "stretch").agg(
        F.max("worker").alias("worker"),
        F.min("seq").alias("since_seq"),
        F.min("at").alias("since_at"),
        F.max_by("next_at", "seq").alias("next_at"),
    )
    ends = stays.select(*KEY, "left_at", "day")
    until = F.coalesce("next_at", "left_at")
    return cast_to(folded.join(ends, KEY).withColumn("until_at", until), SCHEMA)
