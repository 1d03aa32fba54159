"""Spark as a worker: `sql`, `tables`, `describe`, `pipelines` and `run` on one session.

What each task may do is in `guard` (statements), `views` (tables), `watch` (cancel and deadline),
`results` (replies and files) and `recipe` (pipelines); here they meet.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

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
from dragoman.spark.guard import NotAllowed, check_plan, harden, parse
from dragoman.spark.pipeline_run import PipelineRun
from dragoman.spark.results import (
    FileServiceFolder,
    ResultFolder,
    ResultStore,
    ResultTooLarge,
    Sweeper,
    reply,
)
from dragoman.spark.retention import Retention
from dragoman.spark.settings import SparkSettings
from dragoman.spark.views import Views
from dragoman.spark.watchdog import DeadlineExceeded, JobHandle, Stopped, Watchdog

#: Spark's Python side prints every failed statement with its stack; the client is told already.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
#: Seconds between two looks at what is to be removed, at most.
_SWEEP: Final = 600.0


class SparkTasks:
    """The tasks of a Spark worker."""

    def __init__(
        self,
        spark: SparkSession,
        settings: SparkSettings,
        *,
        place: ResultStore | None = None,
        fabric: str = "",
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._place = place
        self._fabric = fabric
        self._views = self._opened()
        keep = settings.results.keep
        every = min(_SWEEP, keep / 4) if keep else _SWEEP
        self._sweeper = Sweeper(place, every) if place is not None else None
        self._watch = Watchdog(spark.sparkContext, settings.limits.seconds)

    def _opened(self) -> Views:
        """Make a session of its own, with every table."""
        session, settings = self._spark.newSession(), self._settings
        if settings.read_only:
            harden(session)
        views = Views(session, settings.data, settings.tables, settings.refresh)
        views.open()
        return views

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()
        if self._sweeper is not None:
            self._sweeper.close()

    # --- tasks --------------------------------------------------------------------------------

    def sql(
        self, query: str, args: dict[str, Any] | list[Any] | None = None, *, job: JobContext
    ) -> dict[str, Any]:
        """Run a query; `args` are bound to its `:name` or `?` parameters, never pasted."""
        begun = time.monotonic()
        with self._told(query), self._watch.over(job, query):
            table = self._result(query, args)
        with self._told(query):
            found = reply(table, self._settings.limits, self._place, _plain_name(job))
        return {**found, "seconds": round(time.monotonic() - begun, 3)}

    def _result(self, query: str, args: dict[str, Any] | list[Any] | None) -> pa.Table:
        session = self._views.session
        # Also where anything is allowed: the parser alone says where it stopped.
        parsed = parse(session, query)
        if self._settings.read_only:
            check_plan(parsed, self._views.names())
        self._views.renew()
        rows = session.sql(query, args=args or None)
        # One row more than is given out tells that there are too many.
        return rows.limit(self._settings.limits.rows + 1).toArrow()

    def tables(self) -> list[dict[str, Any]]:
        """List the tables that a query can name."""
        return self._views.listing()

    def describe(self, table: str) -> list[dict[str, Any]]:
        """Describe the columns of a table."""
        try:
            with self._told(""):
                self._views.renew()
                return self._views.columns(table)
        except KeyError:
            known = ", ".join(self._views.names())
            raise TaskFailed(f"there is no table {table!r}; there are {known}") from None

    def pipelines(self) -> list[dict[str, Any]]:
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
        self, pipeline: str, parameters: dict[str, Any] | None = None, *, job: JobContext
    ) -> dict[str, Any]:
        """Run a registered pipeline; progress is told step by step."""
        found = self._settings.pipelines.get(pipeline)
        if found is None:
            known = ", ".join(sorted(self._settings.pipelines)) or "none"
            raise TaskFailed(f"there is no pipeline {pipeline!r}; there are {known}")
        begun = time.monotonic()
        with self._told(""), self._watch.over(job, pipeline) as watched:
            session = self._opened().session
            name, credentials = _plain_name(job), self._settings.credentials
            recipe = PipelineRun(session, found, parameters or {}, name, self._fabric, credentials)
            outputs = recipe.run(watched.begin)
        return {"outputs": outputs, "seconds": round(time.monotonic() - begun, 3)}

    @contextmanager
    def _told(self, query: str) -> Iterator[None]:
        """Turn whatever goes wrong into words for the caller."""
        try:
            yield
        except (NotAllowed, ResultTooLarge, DeadlineExceeded, Stopped, ValueError) as error:
            raise TaskFailed(str(error)) from None
        except (PySparkException, Py4JError) as error:
            raise TaskFailed(explain(error, query)) from None


def _plain_name(job: JobHandle) -> str:
    """Make a name for files and folders of a job's id, whatever its client chose."""
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
    """Make a worker and its tasks; the tasks are to be closed after the worker has ended.

    `credentials` are the worker's own; those of executors are where the settings say.
    """
    proved = find_credentials(credentials)
    worker = Worker(
        url,
        service,
        name=name,
        concurrency=concurrency,
        labels=labels,
        files_url=files_url,
        credentials=proved,
    )
    broker = default_files_url(worker.endpoint) if files_url is None else files_url

    def connect() -> Client:
        # Another name each time: results of several jobs may be put at a time.
        return Client(broker, f"{worker.name}-results-{os.urandom(3).hex()}", proved)

    tasks = SparkTasks(
        spark,
        settings,
        place=_place(settings, connect, broker),
        fabric=broker if broker.partition("://")[0] in KEYED else "",
    )
    for task in (tasks.sql, tasks.tables, tasks.describe, tasks.pipelines, tasks.run):
        worker.task(task)
    return worker, tasks


def _place(
    settings: SparkSettings, connect: Callable[[], Client], broker: str
) -> ResultStore | None:
    results = settings.results
    if not results.url:
        return None
    if results.folder:
        keeping = Retention(results.keep, results.keep_bytes)
        return ResultFolder(results.folder, results.url, keeping)
    if not broker:
        raise ValueError(
            "this worker's dialect has no clients; say with --files-url where to put files"
        )
    return FileServiceFolder(connect, results.url, Retention(results.keep, results.keep_bytes))
