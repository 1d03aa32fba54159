"""Silver `resources`: which worker owned which resource, and when.

An `owns` record lists all resources of its worker. A worker owns a resource until a later `owns`
record omits it, or the session ends. A row is settled when its session is.
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


def resources(control: DataFrame, base: DataFrame) -> DataFrame:
    """Fold `owns` records into intervals of ownership; `base` holds the sessions."""
    owns = of_sessions(control).where(is_kind(Kind.OWNS) & F.col("session").isNotNull())
    in_order = Window.partitionBy(*KEY).orderBy("seq")
    owns = owns.withColumns(
        {"number": F.row_number().over(in_order), "next_at": F.lead("at").over(in_order)}
    )
    owned = owns.withColumn("resource", F.explode(F.array_distinct(F.split("detail", "\n"))))
    owned = owned.where(F.col("resource") != "")
    # Consecutive `owns` records with the resource are one interval.
    same = Window.partitionBy(*KEY, "resource").orderBy("seq")
    owned = owned.withColumn("interval", F.col("number") - F.row_number().over(same))
    folded = owned.groupBy(*KEY, "resource", "interval").agg(
        F.max("worker").alias("worker"),
        F.min("seq").alias("since_seq"),
        F.min("at").alias("since_at"),
        F.max_by("next_at", "seq").alias("next_at"),
    )
    ends = base.select(*KEY, "left_at", "day")
    until = F.coalesce("next_at", "left_at")
    return cast_to(folded.join(ends, KEY).withColumn("until_at", until), SCHEMA)
