"""The audit: one row for each breach of a promise that the ledger shows, with its proof.

`seqs` are the sequence numbers of the records that prove the breach. A breach of an open job has no
day: every step judges it again. All other rows are final. The rules are:

* `sequence_gap`: no record has this number. `at` is null, `day` is 1970-01-01.
* `sequence_repeat`: more than one record has this number.
* `no_final_state`: the newest record is more than `GRACE_US` past the deadline of a job that has
  not ended.
* `two_final_states`: a job has an `ended` record after its first.
* `changed_after_end`: a job was dispatched, requeued, forwarded or gathered after its end.
* `stale_result_applied`: an `ended` or `gathered` record names an attempt, or a worker, that is
  not the one of its part's newest dispatch.
* `result_without_dispatch`: an `ended` or `gathered` record names an attempt or worker, or is a
  success that was not memoised, but its part was never dispatched; or its job has no `submitted`.
* `lost_worker_dispatch`: work went to a worker in the days after its `left` (`control.LEFT_DAYS`)
  and before its next `joined`.
* `lease_broken`: an assignment was requeued as `worker_lost`, but since its dispatch the worker did
  not leave, join or resync, and no broker process started or stopped.
* `unfair_wait`: see `fairness`.
"""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dragoman.model.record import Kind
from dragoman.pipeline.job_records import after_the_end, until_end
from dragoman.pipeline.schema import cast_to, columns, day_of, is_kind

TABLE: Final = "audit"
SCHEMA: Final = columns("""
    rule string
    seqs bigints
    at timestamp
    job string
    service string
    client string
    worker string
    words string
    day date
""")
RULES: Final = (
    "sequence_gap",
    "sequence_repeat",
    "no_final_state",
    "two_final_states",
    "changed_after_end",
    "stale_result_applied",
    "result_without_dispatch",
    "lost_worker_dispatch",
    "lease_broken",
    "unfair_wait",
)
#: Grace after the deadline of a job that has not ended: timers are not exact.
GRACE_US: Final = 60_000_000


def _row(rule: str, words: Column, *seqs: Column | str) -> list[Column]:
    proof = F.array(*[F.col(s) if isinstance(s, str) else s for s in seqs])
    return [F.lit(rule).alias("rule"), words.alias("words"), proof.alias("seqs")]


def _words(template: str, *names: str) -> Column:
    return F.format_string(template, *[F.col(name) for name in names])


def gaps(missing: DataFrame) -> DataFrame:
    """Report the ranges of sequence numbers without a record."""
    each = missing.select(F.explode(F.sequence("first", "last")).alias("seq"))
    rows = each.select(*_row("sequence_gap", _words("record %d is missing", "seq"), "seq"))
    empty = {n: F.lit("") for n in ("job", "service", "client", "worker")}
    day = F.lit("1970-01-01").cast("date")
    return cast_to(rows.withColumns({**empty, "at": F.lit(None), "day": day}), SCHEMA)


def repeats(repeated: DataFrame) -> DataFrame:
    """Report sequence numbers of more than one record."""
    words = _words("%2$d records have number %1$d", "seq", "times")
    rows = repeated.select("at", *_row("sequence_repeat", words, "seq"))
    empty = {n: F.lit("") for n in ("job", "service", "client", "worker")}
    return cast_to(rows.withColumns({**empty, "day": day_of(F.col("at"))}), SCHEMA)


def of_jobs(annotated: DataFrame) -> DataFrame:
    """Report each record of a job that breaks a rule."""
    found = until_end(annotated).withColumn("rule", breach()).where(F.col("rule").isNotNull())
    texts = {
        "stale_result_applied": (
            _words(
                "applied attempt %d of %s, but part %d was dispatched to %s as attempt %d",
                *("attempt", "worker", "part", "held_worker", "held_attempt"),
            ),
            ("held_seq", "seq"),
        ),
        "result_without_dispatch": (
            _words("part %d has a result but was never dispatched", "part"),
            ("submitted_seq", "seq"),
        ),
        "lost_worker_dispatch": (
            _words("dispatched to %s, which left at record %d", "worker", "said_seq"),
            ("said_seq", "seq"),
        ),
        "lease_broken": (
            _words("requeued as lost, but %s was connected since record %d", "worker", "said_seq"),
            ("said_seq", "held_seq", "seq"),
        ),
    }
    words, seqs = F.lit(""), F.array().cast("array<bigint>")
    for name, (text, proof) in texts.items():
        is_it = F.col("rule") == name
        words = F.when(is_it, text).otherwise(words)
        seqs = F.when(is_it, F.array(*[F.col(p) for p in proof])).otherwise(seqs)
    day = F.when(F.col("end_seq").isNotNull(), day_of(F.col("at")))
    return cast_to(found.withColumns({"words": words, "seqs": seqs, "day": day}), SCHEMA)


def breach() -> Column:
    """Return the rule that an annotated record of a job breaks, or null."""
    return (
        F.when(_is_stale(), "stale_result_applied")
        .when(_is_without_dispatch(), "result_without_dispatch")
        .when(_goes_to_lost_worker(), "lost_worker_dispatch")
        .when(_breaks_lease(), "lease_broken")
    )


def _is_result() -> Column:
    return is_kind(Kind.ENDED, Kind.GATHERED)


def _is_stale() -> Column:
    other_worker = (F.col("worker") != "") & (F.col("worker") != F.col("held_worker"))
    other = (F.col("attempt") != F.col("held_attempt")) | other_worker
    names_one = F.col("attempt") > 0
    return _is_result() & names_one & F.col("held_seq").isNotNull() & other


def _is_without_dispatch() -> Column:
    names_one = (F.col("attempt") > 0) | (F.col("worker") != "")
    is_memoised = F.col("detail").startswith("memoised")
    succeeded = (F.col("state") == "succeeded") & ~is_memoised
    return _is_result() & F.col("held_seq").isNull() & (names_one | succeeded)


def _goes_to_lost_worker() -> Column:
    return is_kind(Kind.DISPATCHED) & (F.col("said") == Kind.LEFT.value)


def _breaks_lease() -> Column:
    no_boundary = F.coalesce(F.col("boundary_seq"), F.lit(0)) < F.col("held_seq")
    nothing_since = (F.col("said_seq") < F.col("held_seq")) & (F.col("said") != Kind.LEFT.value)
    taken_back = is_kind(Kind.REQUEUED) & (F.col("fault") == "worker_lost")
    return taken_back & nothing_since & no_boundary


def after_ends(annotated: DataFrame) -> DataFrame:
    """Report changes of jobs after their end; needs `end_seq` on every record."""
    moved = is_kind(Kind.DISPATCHED, Kind.REQUEUED, Kind.FORWARDED, Kind.GATHERED)
    rule = F.when(is_kind(Kind.ENDED), "two_final_states").when(moved, "changed_after_end")
    rows = annotated.withColumn("rule", rule).where(F.col("rule").isNotNull())
    words = _words("%s after the job ended at record %d", "kind", "end_seq")
    seqs = F.array("end_seq", "seq")
    return cast_to(
        rows.withColumns({"words": words, "seqs": seqs, "day": day_of(F.col("at"))}), SCHEMA
    )


def after_own_ends(annotated: DataFrame) -> DataFrame:
    """Report records after the end of jobs whose records this step has."""
    return after_ends(after_the_end(annotated))


def of_strays(strays: DataFrame, ended: DataFrame) -> DataFrame:
    """Report records of jobs that ended in an earlier step, or that have no `submitted` record."""
    known = ended.select("job", "submitted_at", F.col("ended_seq").alias("known_seq"))
    rows = strays.join(known, ["job", "submitted_at"], "left")
    again = rows.where(F.col("known_seq").isNotNull()).withColumn("end_seq", F.col("known_seq"))
    unknown = rows.where(F.col("known_seq").isNull() & _is_result())
    words = _words("%s, but the job has no submitted record", "kind")
    found = unknown.select(
        *("at", "job", "service", "client", "worker"),
        *_row("result_without_dispatch", words, "seq"),
        day_of(F.col("at")).alias("day"),
    )
    return after_ends(again).unionAll(cast_to(found, SCHEMA))


def never_ended(open_jobs: DataFrame, horizon: datetime) -> DataFrame:
    """Report open jobs whose deadline passed more than `GRACE_US` ago."""
    over = F.unix_micros(F.lit(horizon)) - F.unix_micros("deadline_at")
    late = open_jobs.where(over > GRACE_US)
    words = _words("still %s, %.0f s past its deadline", "state", "over")
    rows = late.withColumn("over", over / 1e6).select(
        F.col("deadline_at").alias("at"),
        *("job", "service", "client", "worker"),
        *_row("no_final_state", words, "submitted_seq", "last_seq"),
        F.lit(None).cast("date").alias("day"),
    )
    return cast_to(rows, SCHEMA)


def unfair_waits(unfair: DataFrame) -> DataFrame:
    """Report the waits that `fairness` found."""
    words = _words("waited while its service made %d dispatches for other clients", "turns")
    rows = unfair.select(
        *("at", "job", "service", "client", F.lit("").alias("worker")),
        *_row("unfair_wait", words, "since_seq", "seq"),
        day_of(F.col("at")).alias("day"),
    )
    return cast_to(rows, SCHEMA)
