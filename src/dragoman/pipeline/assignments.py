"""Silver `assignments`: one row for each time a part of a job went to a worker.

If the attempt ended without a result, `outcome` is `requeued` or `forwarded`. Otherwise it is the
final state of the part or job, or `running` while there is none. A row is settled when its job is.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dragoman.pipeline.schema import cast_to, columns, day_of, span_us

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


def assignments(folded: DataFrame) -> DataFrame:
    """Make one row of each dispatch, with the records that belong to it."""
    rows = folded.select(*("*", "given.dialect_in", "end.*"), F.inline("dispatched"))
    later = F.filter("dispatched", lambda other: _follows(other, other["dispatched_seq"]))
    rows = rows.withColumn("next_seq", F.array_min(later["dispatched_seq"]))
    accepted, stopped = F.filter("accepted", _belongs), F.filter("stopped", _belongs)
    found = {"accepted_at": F.array_min(accepted["at"]), "stop": F.array_min(stopped)}
    return _finished(rows.withColumns(found))


def _follows(record: Column, seq: Column) -> Column:
    """Whether a record is about the same part and comes after the dispatch of the row."""
    return (record["part"] == F.col("part")) & (seq > F.col("dispatched_seq"))


def _belongs(record: Column) -> Column:
    """Whether a record belongs to the dispatch of the row, not to the next one of its part."""
    in_time = F.col("next_seq").isNull() | (record["seq"] < F.col("next_seq"))
    return _follows(record, record["seq"]) & in_time


def _finished(rows: DataFrame) -> DataFrame:
    is_result = F.col("end_attempt") == F.col("attempt")
    result = F.when(is_result, F.col("end_nbytes")).otherwise(F.lit(0))
    stopped = F.col("stop").isNotNull()
    is_answer = stopped & ~F.col("stop.outcome").isin("requeued", "forwarded")
    rows = rows.withColumns(
        {
            "ended_seq": F.coalesce("stop.seq", "end_seq"),
            "ended_at": F.coalesce("stop.at", "end_at"),
            "outcome": F.coalesce("stop.outcome", "end_state", F.lit("running")),
            "fault": F.coalesce("stop.fault", "end_fault", F.lit("")),
            "result_bytes": F.when(is_answer, F.col("stop.nbytes"))
            .when(~stopped, F.coalesce(result, F.lit(0)))
            .otherwise(F.lit(0)),
            "day": day_of(F.col("end_at")),
        }
    )
    rows = rows.withColumn("run_us", span_us(F.col("dispatched_at"), F.col("ended_at")))
    return cast_to(rows, SCHEMA)
