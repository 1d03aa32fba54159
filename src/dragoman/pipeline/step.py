"""One step: update all tables with new records, completely or not at all.

Batch runs and streams both consist of steps. Every division of a ledger into steps gives the same
tables. A step writes bronze, silver, gold and audit tables; nothing is valid before its commit.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from functools import cached_property, reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dragoman.model.record import Kind
from dragoman.pipeline import (
    accounting,
    anomalies,
    assignments,
    audit,
    bridges,
    bronze,
    clients,
    control,
    events,
    fairness,
    job_fold,
    job_records,
    jobs,
    resources,
    service_minutes,
    session_days,
    sessions,
    slo,
    worker_days,
)
from dragoman.pipeline.control import ControlBounds
from dragoman.pipeline.export import Export
from dragoman.pipeline.manifest import SegmentRange
from dragoman.pipeline.period import StepPeriod, period_of
from dragoman.pipeline.schema import cast_to, is_kind
from dragoman.pipeline.snapshot import Snapshot, instant
from dragoman.pipeline.store import TableStore
from dragoman.pipeline.tuning import partitions

Notice = Callable[[str], None]
#: Jobs whose keys every task may hold in memory.
_FEW_JOBS: Final = 250_000
#: Tables written at a time; more would only compete for the same cores and memory.
_AT_ONCE: Final = 2


def advance(
    store: TableStore,
    export: Export,
    ranges: Sequence[SegmentRange],
    notice: Notice = lambda _: None,
) -> Snapshot:
    """Update the tables with ranges of records, which begin after the newest one in the tables."""
    step = _StepRun(store, export, ranges, notice)
    try:
        return step.run()
    finally:
        step.release()


def _small(rows: DataFrame) -> DataFrame:
    """Let one task write a small table: a step adds one file for each day."""
    return rows.coalesce(1)


class _StepRun:
    """The data frames of one step."""

    def __init__(
        self, store: TableStore, export: Export, ranges: Sequence[SegmentRange], notice: Notice
    ) -> None:
        self.store = store
        self.step = store.begin()
        self.former = store.snapshot
        self.export, self.ranges = export, ranges
        self.notice = notice
        self._kept: list[DataFrame] = []

    def run(self) -> Snapshot:
        self.bronze()
        self.silver()
        self._in_parallel(self.workers, self.gold, self.minutes, self.audit)
        self.notice("commit")
        return self.step.commit(self.ranges[-1].last, self.horizon)

    def release(self) -> None:
        for rows in self._kept:
            rows.unpersist()

    def _in_parallel(self, *works: Callable[[], None]) -> None:
        """Run independent parts in parallel: while Spark plans one, another uses the cores."""
        with ThreadPoolExecutor(_AT_ONCE, "dragoman-step") as pool:
            for done in [pool.submit(work) for work in works]:
                done.result()

    def keep(self, rows: DataFrame) -> DataFrame:
        """Cache rows until the end of the step."""
        self._kept.append(rows.persist(StorageLevel.MEMORY_AND_DISK))
        return rows

    # --- the period that a step changes -------------------------------------------------------

    @cached_property
    def period(self) -> StepPeriod:
        return period_of(self.arrival.earliest, self.arrival.latest, self.former.horizon)

    @property
    def horizon(self) -> datetime:
        """The newest instant."""
        return self.period.horizon

    @property
    def since(self) -> datetime:
        """The first minute that can change."""
        return self.period.since

    @property
    def since_day(self) -> date:
        """The first day that can change."""
        return self.period.since_day

    # --- bronze -------------------------------------------------------------------------------

    def bronze(self) -> None:
        """Write the new records."""
        self.notice("events")
        self.arrival = bronze.write_events(self.step, self.export, self.ranges)
        self.new = self.step.written(events.TABLE, events.SCHEMA)

    # --- silver -------------------------------------------------------------------------------

    @cached_property
    def control(self) -> DataFrame:
        carried = self.store.read(control.TABLE, control.SCHEMA)
        return self.keep(carried.unionAll(control.control(self.new)))

    @cached_property
    def bounds(self) -> ControlBounds:
        return control.bounds(self.control)

    @cached_property
    def job_records(self) -> DataFrame:
        """The records of jobs: the carried ones of open jobs, and the new ones."""
        marks = control.recent(self.bounds.marks, self.former.seq)
        carried = job_records.still_open(self.store.read(job_records.TABLE, job_records.ANNOTATED))
        return carried.unionAll(
            job_records.job_records(self.new, control.spans(self.control), marks)
        )

    def silver(self) -> None:
        number = partitions(self.store.spark, self.ranges[-1].last - self.former.seq)
        folded = self.keep(job_fold.fold_jobs(self.job_records, number))
        found = self._carried(folded)
        self._in_parallel(lambda: self._jobs(found), lambda: self._assignments(found))
        folded.unpersist()

    def _jobs(self, folded: DataFrame) -> None:
        self.notice("jobs")
        self.step.append(jobs.TABLE, jobs.jobs(folded))

    def _assignments(self, folded: DataFrame) -> None:
        self.notice("assignments")
        self.step.append(assignments.TABLE, assignments.assignments(folded))

    def _carried(self, folded: DataFrame) -> DataFrame:
        """Carry records over; return the submitted jobs, folded up to their ends."""
        self.notice("carried records")
        counts = (F.count_if(job_fold.is_notable()), F.count_if(job_fold.is_late()))
        notable, late = folded.agg(*counts).collect()[0]
        chosen = self._of(folded.where(job_fold.is_notable()), notable)
        annotated = job_records.annotate(chosen)
        is_kept = job_records.is_unfinished() | audit.breach().isNotNull()
        rows = cast_to(annotated.where(is_kept), job_records.ANNOTATED)
        self.step.carry(job_records.TABLE, _small(rows) if notable <= _FEW_JOBS else rows)
        self.step.carry(control.TABLE, _small(control.carried_over(self.control, self.horizon)))
        if late:
            again = job_records.annotate(self._of(folded.where(job_fold.is_late()), late))
            again = job_fold.fold_jobs(job_records.until_end(again))
            folded = folded.where(~job_fold.is_late()).unionAll(self.keep(again))
        return folded.where(F.col("given").isNotNull())

    def _of(self, folded: DataFrame, number: int) -> DataFrame:
        """Select the records of some jobs; if these are few, no record is moved."""
        keys = folded.select(*job_records.KEY)
        few = F.broadcast(keys) if number <= _FEW_JOBS else keys
        return job_records.of_keys(self.job_records, few)

    def jobs(self) -> DataFrame:
        """Jobs that ended on or after the first touched day, and open ones."""
        return self.step.read(jobs.TABLE, jobs.SCHEMA, self.since_day)

    def assignments(self) -> DataFrame:
        return self.step.read(assignments.TABLE, assignments.SCHEMA, self.since_day)

    def ended(self) -> DataFrame:
        return self.jobs().where(F.col("day").isNotNull())

    def refusals(self) -> DataFrame:
        found = self.step.read(events.TABLE, events.SCHEMA, self.since_day)
        return found.where(is_kind(Kind.REFUSED))

    def workers(self) -> None:
        """Write sessions, resources and the days of workers."""
        self.notice("sessions")
        base = self.keep(sessions.base_sessions(self.control))
        former = self.store.read(sessions.TABLE, sessions.SCHEMA, self.since_day)
        settled = cast_to(former.where(F.col("day").isNotNull()), sessions.BASE)
        days = session_days.session_days(
            self.assignments(), settled.unionAll(base), self.since_day, self.horizon
        )
        self.step.replace(session_days.TABLE, days, self.since_day)
        oldest = self.bounds.oldest.date() if self.bounds.oldest else self.since_day
        all_days = self.step.read(session_days.TABLE, session_days.SCHEMA, oldest)
        found = sessions.sessions(base, all_days, self.horizon)
        self.step.append(sessions.TABLE, _small(found))
        self.step.append(resources.TABLE, _small(resources.resources(self.control, base)))
        written = self.step.written(session_days.TABLE, session_days.SCHEMA)
        found = worker_days.worker_days(written)
        self.step.replace(worker_days.TABLE, _small(found), self.since_day)

    # --- gold ---------------------------------------------------------------------------------

    def gold(self) -> None:
        day = self.since_day
        self.notice("clients")
        found = clients.clients(self.jobs(), self.refusals(), day)
        self.step.replace(clients.TABLE, _small(found), day)
        self.notice("accounting")
        self.step.replace(accounting.TABLE, _small(accounting.accounting(self.ended())), day)
        self.step.replace(bridges.TABLE, _small(bridges.bridges(self.ended())), day)
        window = day - timedelta(days=slo.WINDOW_DAYS)
        former = self.store.read(slo.TABLE, slo.SCHEMA, window)
        self.step.replace(slo.TABLE, _small(slo.slo(self.ended(), former, day)), day)

    def minutes(self) -> None:
        self.notice("service minutes")
        recent = F.col("ended_at").isNull() | (F.col("ended_at") >= F.lit(self.since))
        fresh = service_minutes.service_minutes(
            self.jobs().where(recent),
            self.assignments().where(recent),
            self.refusals(),
            self.since,
        )
        self._replace_minutes(service_minutes.TABLE, service_minutes.SCHEMA, fresh)
        self.notice("anomalies")
        back = self.since - timedelta(hours=anomalies.HISTORY_HOURS + 1)
        table = service_minutes.TABLE, service_minutes.SCHEMA
        known = self.step.read(*table, back.date()).where(F.col("minute") >= F.lit(back))
        fresh = _small(anomalies.anomalies(known, self.since))
        self._replace_minutes(anomalies.TABLE, anomalies.SCHEMA, fresh)

    def _replace_minutes(self, table: str, schema: StructType, fresh: DataFrame) -> None:
        """Replace the minutes of the first touched day, and all later ones."""
        former = self.store.read(table, schema, self.since_day)
        before = former.where(F.col("minute") < F.lit(self.since))
        self.step.replace(table, before.unionAll(fresh), self.since_day)

    # --- audit --------------------------------------------------------------------------------

    def audit(self) -> None:
        self.notice("audit")
        here = self.step.written(jobs.TABLE, jobs.SCHEMA)
        notable = self.step.read(job_records.TABLE, job_records.ANNOTATED)
        found = [
            audit.of_jobs(notable),
            audit.after_own_ends(notable),
            audit.never_ended(here.where(F.col("day").isNull()), self.horizon),
            *self._sequence(),
            *self._strays(job_records.strays(notable)),
            *self._unfair(here.where(F.col("day").isNotNull())),
        ]
        self.step.append(audit.TABLE, _small(reduce(DataFrame.unionAll, found)))

    def _sequence(self) -> list[DataFrame]:
        found = ((audit.gaps, self.arrival.gaps), (audit.repeats, self.arrival.repeats))
        spark = self.store.spark
        return [report(spark.createDataFrame(rows)) for report, rows in found if len(rows)]

    def _strays(self, strays: DataFrame) -> list[DataFrame]:
        oldest = strays.agg(F.unix_micros(F.min("submitted_at"))).collect()[0][0]
        if oldest is None:
            return []
        known = self.store.read(jobs.TABLE, jobs.SCHEMA, instant(oldest).date())
        return [audit.of_strays(strays, known.where(F.col("day").isNotNull()))]

    def _unfair(self, ended: DataFrame) -> list[DataFrame]:
        waited = fairness.suspects(ended)
        begun = F.unix_micros(F.min("submitted_at"))
        oldest, first = waited.agg(begun, F.min("submitted_seq")).collect()[0]
        if oldest is None:
            return []
        known = self.step.read(events.TABLE, events.SCHEMA, instant(oldest).date())
        known = known.where(F.col("seq") >= first)
        return [audit.unfair_waits(fairness.unfair(waited, known))]
