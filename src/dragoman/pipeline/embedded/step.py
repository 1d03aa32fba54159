"""One step without Spark: the same tables as `pipeline.step` makes, by SQL in DuckDB."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyspark.sql.types import DateType, StructField, StructType

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
    job_records,
    jobs,
    resources,
    service_minutes,
    session_days,
    sessions,
    slo,
    worker_days,
)
from dragoman.pipeline.delta import DataFile, Files
from dragoman.pipeline.embedded.engine import DuckEngine
from dragoman.pipeline.export import Export
from dragoman.pipeline.files import arrow_schema, read_files, write_rows
from dragoman.pipeline.manifest import SegmentRange
from dragoman.pipeline.period import period_of
from dragoman.pipeline.snapshot import Snapshot
from dragoman.pipeline.table_state import StepState, TableState, since_day

Notice = Callable[[str], None]
_JOB: Final = ("job", "submitted_at", "ended_seq", "day")
_DISPATCH: Final = ("seq", "at", "kind", "service", "client", "job")
_REFUSAL: Final = ("at", "kind", "service", "client", "principal", "dialect", "fault")
_SESSION: Final = ("peer", "session", "worker", "joined_at", "left_at", "day")
_SESSION_DAY: Final = ("peer", "session", "dispatched", "busy_us")
_WITH_DAY: Final = {
    table: StructType([*schema.fields, StructField("day", DateType())])
    for table, schema in (
        (control.TABLE, control.SCHEMA),
        (job_records.TABLE, job_records.ANNOTATED),
    )
}


def advance_embedded(
    state: TableState,
    export: Export,
    ranges: Sequence[SegmentRange],
    notice: Notice = lambda _: None,
    settings: dict[str, str] | None = None,
) -> Snapshot:
    """Update the tables with ranges of records, as `step.advance` does."""
    with DuckEngine(settings) as engine:
        return _EmbeddedStep(state, engine, notice).run(export, ranges)


class _EmbeddedStep:
    """The tables of one step, in the order in which they depend on each other."""

    def __init__(self, state: TableState, engine: DuckEngine, notice: Notice) -> None:
        self.state, self.engine, self.notice = state, engine, notice
        self.step = StepState(state)
        self.former = state.snapshot

    def run(self, export: Export, ranges: Sequence[SegmentRange]) -> Snapshot:
        self._events(export, ranges)
        self._silver()
        self._sessions()
        self._gold()
        self._minutes()
        self._audit()
        self.notice("commit")
        return self.step.commit(ranges[-1].last, self.horizon)

    # --- files --------------------------------------------------------------------------------

    def _load(
        self,
        name: str,
        table: str,
        schema: StructType,
        found: Iterable[DataFile],
        columns: Iterable[str] | None = None,
    ) -> None:
        """Make a table in the engine of files of a table."""
        self.engine.load(name, read_files(self.state.root, table, schema, found, columns))

    def _former(self, table: str, since: date | None = None) -> list[DataFile]:
        return since_day(self.state.files(table), since)

    def _put(self, table: str, kept: Files, view: str, schema: StructType) -> None:
        folder = self.step.folder(table)
        write_rows(self.state.root, table, folder, self.engine.typed(view, schema))
        self.step.take(table, kept, folder, arrow_schema(schema))

    def _append(self, table: str, view: str, schema: StructType) -> None:
        self._put(table, self.step.settled(table), view, schema)

    def _replace(self, table: str, view: str, schema: StructType) -> None:
        self._put(table, self.step.settled(table, self.since_day), view, schema)

    def _carry(self, table: str) -> None:
        view = f"(from {table} select *, cast(null as date) as day)"
        self._put(table, {}, view, _WITH_DAY[table])

    # --- the tables ---------------------------------------------------------------------------

    def _events(self, export: Export, ranges: Sequence[SegmentRange]) -> None:
        self.notice("events")
        arrival = bronze.write_events(self.step, export, ranges)
        new = self.step.fresh(events.TABLE)
        self._load("new_records", events.TABLE, events.SCHEMA, new)
        self.engine.load("gaps", arrival.gaps)
        self.engine.load("repeats", arrival.repeats)
        period = period_of(arrival.earliest, arrival.latest, self.former.horizon)
        self.horizon, self.since, self.since_day = period.horizon, period.since, period.since_day
        self.engine.set(
            horizon=self.horizon.replace(tzinfo=None),
            since=self.since.replace(tzinfo=None),
            since_day=self.since_day,
            most_turns=fairness.MOST_TURNS,
            left_days=control.LEFT_DAYS,
        )

    def _silver(self) -> None:
        self.notice("jobs")
        former = self._former(control.TABLE)
        self._load("old_control", control.TABLE, control.SCHEMA, former)
        former = self._former(job_records.TABLE)
        self._load("old_life", job_records.TABLE, job_records.ANNOTATED, former)
        for module in (jobs, assignments):
            former = self._former(module.TABLE, self.since_day)
            self._load(f"old_{module.TABLE}", module.TABLE, module.SCHEMA, former)
        former = self._former(events.TABLE, self.since_day)
        self._load("old_events", events.TABLE, events.SCHEMA, former, _REFUSAL)
        self.engine.run("control.sql")
        self.engine.run("jobs.sql")
        self._carry(job_records.TABLE)
        self._carry(control.TABLE)
        for module in (jobs, assignments):
            self._append(module.TABLE, f"{module.TABLE}_written", module.SCHEMA)

    def _sessions(self) -> None:
        self.notice("sessions")
        former = self._former(sessions.TABLE, self.since_day)
        self._load("old_sessions", sessions.TABLE, sessions.SCHEMA, former, _SESSION)
        days, schema = self._former_days(), session_days.SCHEMA
        self._load("old_session_days", session_days.TABLE, schema, days, _SESSION_DAY)
        self.engine.run("sessions.sql")
        self._replace(session_days.TABLE, "session_days_written", session_days.SCHEMA)
        self._append(sessions.TABLE, "sessions_written", sessions.SCHEMA)
        self._append(resources.TABLE, "resources_written", resources.SCHEMA)
        self._replace(worker_days.TABLE, "worker_days_written", worker_days.SCHEMA)

    def _former_days(self) -> list[DataFile]:
        """Return the files of days before this step, since the oldest session that it writes."""
        (oldest,) = self.engine.one("select min(\"at\") from control where kind = 'joined'")
        since = self.since_day if oldest is None else _utc(oldest).date()
        former = self.step.settled(session_days.TABLE, self.since_day)
        return since_day(former, since)

    def _gold(self) -> None:
        self.notice("accounting")
        window = self.since_day - timedelta(days=slo.WINDOW_DAYS)
        self._load("old_slo", slo.TABLE, slo.SCHEMA, self._former(slo.TABLE, window))
        self.engine.set(
            per_job=accounting.PER_JOB,
            per_run_second=accounting.PER_RUN_SECOND,
            per_mebibyte=accounting.PER_MEBIBYTE,
            good_within_us=slo.GOOD_WITHIN_US,
            window_days=slo.WINDOW_DAYS,
            objective=slo.OBJECTIVE,
        )
        self.engine.run("gold.sql")
        for module in (clients, accounting, bridges, slo):
            self._replace(module.TABLE, f"{module.TABLE}_written", module.SCHEMA)

    def _minutes(self) -> None:
        self.notice("service minutes")
        back = self.since - timedelta(hours=anomalies.HISTORY_HOURS + 1)
        for name, module, since in (
            ("old_minutes", service_minutes, back.date()),
            ("old_anomalies", anomalies, self.since_day),
        ):
            found = self._former(module.TABLE, since)
            self._load(name, module.TABLE, module.SCHEMA, found)
        self.engine.set(
            history_hours=anomalies.HISTORY_HOURS,
            least_history=anomalies.LEAST_HISTORY,
            threshold=anomalies.THRESHOLD,
            floor_share=anomalies.FLOOR_SHARE,
        )
        floors = ", ".join(f"'{name}': {floor}::double" for name, floor in anomalies.FLOORS.items())
        self.engine.connection.execute(f"set variable floors = map {{{floors}}}")
        names = ", ".join(f'"{name}"' for name in service_minutes.SCHEMA.names)
        self.engine.run("minutes.sql", minute_columns=names)
        for module in (service_minutes, anomalies):
            self._replace(module.TABLE, f"{module.TABLE}_written", module.SCHEMA)

    def _audit(self) -> None:
        self.notice("audit")
        (oldest,) = self.engine.one("select min(submitted_at) from strays")
        former = [] if oldest is None else self._former(jobs.TABLE, _utc(oldest).date())
        settled = [file for file in former if file.day is not None]
        self._load("known_jobs", jobs.TABLE, jobs.SCHEMA, settled, _JOB)
        (oldest,) = self.engine.one("select min(submitted_at) from suspects")
        found = [] if oldest is None else self.step.files(events.TABLE, _utc(oldest).date())
        self._load("old_dispatches", events.TABLE, events.SCHEMA, found, _DISPATCH)
        self.engine.set(grace_us=audit.GRACE_US)
        self.engine.run("audit.sql")
        self._append(audit.TABLE, "audit_written", audit.SCHEMA)


def _utc(instant: object) -> datetime:
    assert isinstance(instant, datetime)
    return instant.replace(tzinfo=UTC)
