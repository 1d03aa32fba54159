"""Silver `assignments`: one row for each time a part of a job went to a worker.

`outcome` is `requeued` or `forwarded` when the attempt ended without a result, else the state
that the part or the job ended in, and `running` while it has not. Rows settle with their job.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.life import KEY, lived
from dragoman.pipeline.schema import columns, day_of, fields, is_kind, shaped, span_us

TABLE: Final = "assignments"
SCHEMA: Final = columns("""
    job string
    submitted_at timestamp
    part bigint
    attempt bigint
    service string
    client string
    worker string
    peer string
    session bigint
    dialect_in string
    dialect string
    outcome string
    fault string
    dispatched_seq bigint
    dispatched_at timestamp
    accepted_at timestamp
    ended_seq bigint
    ended_at timestamp
    run_us bigint
    result_bytes bigint
    day date
""")


_GIVEN: Final = {
    "attempt": "attempt",
    "service": "service",
    "client": "client",
    "worker": "worker",
    "peer": "peer",
    "session": "session",
    "dialect": "dialect",
    "dispatched_at": "at",
}
_END: Final = {
    name: name
    for name in (
        *("end_seq", "end_at", "end_state", "end_fault", "end_attempt", "end_nbytes"),
        "dialect_in",
    )
}


def assignments(annotated: DataFrame) -> DataFrame:
    """Fold the records of each dispatch into its row."""
    rows = lived(annotated).where(F.col("held_seq").isNotNull())
    key = (*KEY, "part", F.col("held_seq").alias("dispatched_seq"))
    folded = rows.groupBy(*key).agg(
        F.max(F.when(is_kind(Kind.DISPATCHED), fields(_GIVEN))).alias("given"),
        F.min(F.when(is_kind(Kind.ACCEPTED), F.col("at"))).alias("accepted_at"),
        _stopped().alias("stopped"),
        F.any_value(fields(_END)).alias("ended"),
    )
    return _finished(folded.select("*", "given.*", "stopped.*", "ended.*"))


def _stopped() -> Column:
    """How the attempt itself ended, before its job did."""
    outcome = F.when(is_kind(Kind.GATHERED), F.col("state")).otherwise(F.col("kind"))
    said = F.struct(
        F.col("seq").alias("stop_seq"),
        F.col("at").alias("stop_at"),
        outcome.alias("stop_outcome"),
        F.col("fault").alias("stop_fault"),
        F.col("nbytes").alias("stop_n"),
    )
    return F.min(F.when(is_kind(Kind.REQUEUED, Kind.FORWARDED, Kind.GATHERED), said))


def _finished(folded: DataFrame) -> DataFrame:
    is_result = F.col("end_attempt") == F.col("attempt")
    result = F.when(is_result, F.col("end_nbytes")).otherwise(F.lit(0))
    stopped = F.col("stop_seq").isNotNull()
    is_answer = stopped & ~F.col("stop_outcome").isin("requeued", "forwarded")
    rows = folded.withColumns(
        {
            "ended_seq": F.coalesce("stop_seq", "end_seq"),
            "ended_at": F.coalesce("stop_at", "end_at"),
            "outcome": F.coalesce("stop_outcome", "end_state", F.lit("running")),
            "fault": F.coalesce("stop_fault", "end_fault", F.lit("")),
            "result_bytes": F.when(is_answer, F.col("stop_n"))
            .when(~stopped, F.coalesce(result, F.lit(0)))
            .otherwise(F.lit(0)),
            "day": day_of(F.col("end_at")),
        }
    )
    rows = rows.withColumn("run_us", span_us(F.col("dispatched_at"), F.col("ended_at")))
    return shaped(rows, SCHEMA)
