"""Spark as a worker: the tasks `sql`, `tables`, `describe`, `pipelines` and `run`.

The parts are `guard` (statements), `views` (tables), `watchdog` (cancel and deadline), `results`
(replies and files) and `pipeline_run` (pipelines). This module connects them.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dragoman.sdk.blocking import Client
from dragoman.sdk.context import JobContext
from dragoman.sdk.credentials import CredentialsLike, find_credentials
from dragoman.sdk.file_arguments import files_url as default_files_url
from dragoman.sdk.tasks import TaskFailed
from dragoman.sdk.worker import Worker
from dragoman.spark.error_text import explain
from dragoman.spark.executor_connection import KEYED
from dragoman.spark.guard import NotAllowed, check_plan, harden, parse, restrict_functions
from dragoman.spark.memory import QueryTooLarge, check_constants
from dragoman.spark.pipeline_run import PipelineRun
from dragoman.spark.results import (
    FileServiceFolder,
    ResultFolder,
    ResultStore,
    SparkResultTooLarge,
    Sweeper,
    reply,
)
from dragoman.spark.retention import Retention
from dragoman.spark.settings import SparkSettings
from dragoman.spark.views import Views
from dragoman.spark.watchdog import DeadlineExceeded, JobHandle, Stopped, Watchdog

#: Spark's Python side logs every failed statement with its stack; the client gets the error anyway.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
#: Maximum seconds between two sweeps of result files.
_SWEEP: Final = 600.0
#: Errors whose message is the whole answer.
_EXPECTED: Final = (
    *(NotAllowed, QueryTooLarge, SparkResultTooLarge, DeadlineExceeded, Stopped, ValueError),
)


class SparkTasks:
    """The tasks of a Spark worker."""

    def __init__(
        self,
        spark: SparkSession,
        settings: SparkSettings,
        *,
        store: ResultStore | None = None,
        broker_url: str = "",
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._store = store
        self._broker_url = broker_url
        self._views = self._open_views()
        if settings.read_only:
            # Steps of pipelines are the operator's: they have their own session and all functions.
            restrict_functions(self._views.session)
        keep = settings.results.keep
        every = min(_SWEEP, keep / 4) if keep else _SWEEP
        self._sweeper = Sweeper(store, every) if store is not None else None
        self._watchdog = Watchdog(spark.sparkContext, settings.limits.seconds)

    def _open_views(self) -> Views:
        """Open a new session with every table."""
        session, settings = self._spark.newSession(), self._settings
        if settings.read_only:
            harden(session)
        views = Views(session, settings.data, settings.tables, settings.refresh)
        views.open()
        return views

    def close(self) -> None:
        """End the watchdog and the sweeper."""
        self._watchdog.close()
        if self._sweeper is not None:
            self._sweeper.close()

    # --- tasks --------------------------------------------------------------------------------

    def sql(
        self, query: str, args: dict[str, object] | list[object] | None = None, *, job: JobContext
    ) -> dict[str, object]:
        """Run a query; Spark binds `args` to its `:name` or `?` parameters."""
        started_at = time.monotonic()
        with self._as_task_failures(query), self._watchdog.watch(job, query):
            table = self._result(query, args)
        with self._as_task_failures(query):
            found = reply(table, self._settings.limits, self._store, _plain_name(job))
        return {**found, "seconds": round(time.monotonic() - started_at, 3)}

    def _result(self, query: str, args: dict[str, object] | list[object] | None) -> pa.Table:
        session = self._views.session
        # Parse in any case: only the parser's errors have a position.
        parsed = parse(session, query)
        if self._settings.read_only:
            check_plan(parsed, self._views.names())
        self._views.renew()
        # One row above the limit shows that the result is too large.
        rows = session.sql(query, args=args or None).limit(self._settings.limits.rows + 1)
        if self._settings.read_only:
            check_constants(rows, self._settings.limits.constant_bytes)
        return rows.toArrow()

    def tables(self) -> list[dict[str, object]]:
        """List the tables that a query can name."""
        return self._views.listing()

    def describe(self, table: str) -> list[dict[str, object]]:
        """Describe the columns of a table."""
        try:
            with self._as_task_failures(""):
                self._views.renew()
                return self._views.columns(table)
        except KeyError:
            known = ", ".join(self._views.names())
            raise TaskFailed(f"unknown table {table!r}; known tables: {known}") from None

    def pipelines(self) -> list[dict[str, object]]:
        """List the registered pipelines."""
        return [
            {
                "name": name,
                "description": each.description,
                "parameters": each.parameters,
                "steps": [step.name for step in each.steps],
                "outputs": [*each.outputs],
            }
            for name, each in sorted(self._settings.pipelines.items())
        ]

    def run(
        self, pipeline: str, parameters: dict[str, object] | None = None, *, job: JobContext
    ) -> dict[str, object]:
        """Run a registered pipeline; report each step as progress."""
        found = self._settings.pipelines.get(pipeline)
        if found is None:
            known = ", ".join(sorted(self._settings.pipelines)) or "none"
            raise TaskFailed(f"unknown pipeline {pipeline!r}; known pipelines: {known}")
        started_at = time.monotonic()
        with self._as_task_failures(""), self._watchdog.watch(job, pipeline) as watched:
            session = self._open_views().session
            name, credentials = _plain_name(job), self._settings.credentials
            run = PipelineRun(session, found, parameters or {}, name, self._broker_url, credentials)
            outputs = run.run(watched.begin)
        return {"outputs": outputs, "seconds": round(time.monotonic() - started_at, 3)}

    @contextmanager
    def _as_task_failures(self, query: str) -> Iterator[None]:
        """Turn expected errors into `TaskFailed`, without a traceback for the caller."""
        try:
            yield
        except _EXPECTED as error:
            raise TaskFailed(str(error)) from None
        except (PySparkException, Py4JError) as error:
            raise TaskFailed(explain(error, query)) from None


def _plain_name(job: JobHandle) -> str:
    """Return a job's id as a safe file name: clients may choose any id."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in job.id)


def make_worker(
    url: str,
    service: str,
    spark: SparkSession,
    settings: SparkSettings,
    *,
    name: str | None = None,
    concurrency: int = 4,
    files_url: str | None = None,
    labels: Mapping[str, str] | None = None,
    credentials: CredentialsLike = None,
) -> tuple[Worker, SparkTasks]:
    """Make a worker and its tasks. The caller closes the tasks after the worker.

    `credentials` are the worker's own; the settings name those of executors.
    """
    found = find_credentials(credentials)
    worker = Worker(
        url,
        service,
        name=name,
        concurrency=concurrency,
        labels=labels,
        files_url=files_url,
        credentials=found,
    )
    broker = default_files_url(worker.endpoint) if files_url is None else files_url

    def connect() -> Client:
        # A new client name each time: several jobs may upload results at a time.
        return Client(broker, f"{worker.name}-results-{os.urandom(3).hex()}", found)

    tasks = SparkTasks(
        spark,
        settings,
        store=_store(settings, connect, broker),
        broker_url=broker if broker.partition("://")[0] in KEYED else "",
    )
    for task in (tasks.sql, tasks.tables, tasks.describe, tasks.pipelines, tasks.run):
        worker.task(task)
    return worker, tasks


def _store(
    settings: SparkSettings, connect: Callable[[], Client], broker: str
) -> ResultStore | None:
    results = settings.results
    if not results.url:
        return None
    if results.folder:
        keeping = Retention(results.keep, results.keep_bytes)
        return ResultFolder(results.folder, results.url, keeping)
    if not broker:
        raise ValueError("this worker's dialect has no clients; name a broker URL with --files-url")
    return FileServiceFolder(connect, results.url, Retention(results.keep, results.keep_bytes))
