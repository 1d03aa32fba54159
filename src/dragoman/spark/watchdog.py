"""Watching over what runs on Spark: a cancel or a deadline stops its jobs, progress is told.

A task's thread waits for Spark and can look at nothing else, so one more thread does the looking.
It goes on cancelling until the work has ended: Spark forgets a cancel that comes between two jobs.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from pyspark import SparkContext

_TICK: Final = 0.1
_TELL_EVERY: Final = 1.0


class JobHandle(Protocol):
    """What is needed of a job's context."""

    @property
    def id(self) -> str:
        """The job's id."""
        ...

    @property
    def timeout(self) -> float | None:
        """How long it may run."""
        ...

    @property
    def is_cancelled(self) -> bool:
        """Whether it should stop."""
        ...

    def progress(self, event: Any) -> None:
        """Report to the client."""
        ...


class DeadlineExceeded(Exception):
    """The work was stopped at its deadline."""


class Stopped(Exception):
    """The work was stopped because somebody asked for it."""


class WatchedWork:
    """One piece of work: a group of Spark's jobs."""

    def __init__(self, job: JobHandle, seconds: float, now: float) -> None:
        self.job = job
        # A job may be run twice at a time, by two attempts; each stops its own.
        self.group = f"dragoman-{job.id}-{os.urandom(4).hex()}"
        self.deadline = now + seconds
        self.is_over_time = False
        #: Which step of a pipeline runs, for the reports.
        self.step = ""
        self._told: dict[str, Any] = {}
        self._told_at = now

    def look(self, context: SparkContext, now: float) -> None:
        """Stop it if it must stop, else report."""
        self.is_over_time = self.is_over_time or now >= self.deadline
        if self.job.is_cancelled or self.is_over_time:
            context.cancelJobGroup(self.group)
        elif now - self._told_at >= _TELL_EVERY:
            self._told_at = now
            self.tell(counts(context, self.group))

    def begin(self, step: str) -> None:
        """Report a step that begins. Raises `Stopped` if it should not: Spark has no job yet."""
        if self.job.is_cancelled:
            raise Stopped("stopped as asked")
        self.step = step
        self.tell({})

    def tell(self, event: dict[str, Any]) -> None:
        """Report, unless nothing has changed."""
        event = {**({"step": self.step} if self.step else {}), **event}
        if event != self._told:
            self._told = event
            self.job.progress(event)


def counts(context: SparkContext, group: str) -> dict[str, Any]:
    """Count the tasks of a group's jobs, and those that are done."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return {
        "tasks": sum(stage.numTasks for stage in stages if stage),
        "done": sum(stage.numCompletedTasks for stage in stages if stage),
    }


class Watchdog:
    """The thread that looks after everything that runs."""

    def __init__(self, context: SparkContext, seconds: float) -> None:
        self._context = context
        self._seconds = seconds
        self._lock = threading.Lock()
        self._watched: set[WatchedWork] = set()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman watch", daemon=True)
        self._thread.start()

    @contextmanager
    def over(self, job: JobHandle, what: str) -> Iterator[WatchedWork]:
        """Watch over what this thread does on Spark. Raises `DeadlineExceeded` if it took too
        long.
        """
        seconds = min(self._seconds, job.timeout or self._seconds)
        watched = WatchedWork(job, seconds, time.monotonic())
        self._context.setJobGroup(watched.group, what[:200], interruptOnCancel=True)
        with self._lock:
            self._watched.add(watched)
        try:
            yield watched
        except Exception as error:
            if watched.is_over_time:
                words = f"it was stopped: it may run for {seconds:g} s"
                raise DeadlineExceeded(words) from error
            raise
        finally:
            with self._lock:
                self._watched.discard(watched)
            self._context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]

    def _run(self) -> None:
        while not self._is_closed.wait(_TICK):
            with self._lock:
                found = list(self._watched)
            for each in found:
                each.look(self._context, time.monotonic())

    def close(self) -> None:
        """Stop looking."""
        self._is_closed.set()
        self._thread.join(5.0)
