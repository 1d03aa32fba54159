"""The watchdog of work on Spark: it stops cancelled and overdue work, and reports progress.

A task's thread blocks until Spark is done, so the watchdog has a thread of its own. It cancels
again until the work has ended, because Spark forgets a cancel that comes between two jobs.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from pyspark import SparkContext

_TICK: Final = 0.1
_REPORT_EVERY: Final = 1.0


class JobHandle(Protocol):
    """What the watchdog needs of a job's context."""

    @property
    def id(self) -> str:
        """The job's id."""
        ...

    @property
    def timeout(self) -> float | None:
        """How many seconds it may run; None for no limit."""
        ...

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled."""
        ...

    def progress(self, event: object) -> None:
        """Send a progress report to the client."""
        ...


class DeadlineExceeded(Exception):
    """The work was stopped at its deadline."""


class Stopped(Exception):
    """The work was stopped because its job was cancelled."""


class WatchedWork:
    """The work of one job: a group of Spark jobs."""

    def __init__(self, job: JobHandle, seconds: float, now: float) -> None:
        self.job = job
        # Two attempts of one job may run at a time; each stops its own group.
        self.group = f"dragoman-{job.id}-{os.urandom(4).hex()}"
        self.deadline = now + seconds
        self.is_overdue = False
        #: The running step of a pipeline, for the reports.
        self.step = ""
        self._reported: dict[str, object] = {}
        self._reported_at = now

    def check(self, context: SparkContext, now: float) -> None:
        """Cancel the work if it is cancelled or overdue; else report its progress."""
        self.is_overdue = self.is_overdue or now >= self.deadline
        if self.job.is_cancelled or self.is_overdue:
            context.cancelJobGroup(self.group)
        elif now - self._reported_at >= _REPORT_EVERY:
            self._reported_at = now
            self.report(counts(context, self.group))

    def begin(self, step: str) -> None:
        """Report a step that begins. Raises `Stopped` if the job is cancelled."""
        # The step has no Spark job yet that the watchdog could cancel.
        if self.job.is_cancelled:
            raise Stopped(f"the job was cancelled before step {step}")
        self.step = step
        self.report({})

    def report(self, event: dict[str, object]) -> None:
        """Send a progress report if it differs from the last one."""
        event = {**({"step": self.step} if self.step else {}), **event}
        if event != self._reported:
            self._reported = event
            self.job.progress(event)


def counts(context: SparkContext, group: str) -> dict[str, object]:
    """Count the Spark tasks of a job group, and those that are done."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return {
        "tasks": sum(stage.numTasks for stage in stages if stage),
        "done": sum(stage.numCompletedTasks for stage in stages if stage),
    }


class Watchdog:
    """The thread that watches all work."""

    def __init__(self, context: SparkContext, seconds: float) -> None:
        self._context = context
        self._seconds = seconds
        self._lock = threading.Lock()
        self._watched: set[WatchedWork] = set()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman watch", daemon=True)
        self._thread.start()

    @contextmanager
    def watch(self, job: JobHandle, what: str) -> Iterator[WatchedWork]:
        """Watch this thread's work on Spark. Raises `DeadlineExceeded` if it took too long."""
        seconds = min(self._seconds, job.timeout or self._seconds)
        watched = WatchedWork(job, seconds, time.monotonic())
        self._context.setJobGroup(watched.group, what[:200], interruptOnCancel=True)
        with self._lock:
            self._watched.add(watched)
        try:
            yield watched
        except Exception as error:
            if watched.is_overdue:
                raise DeadlineExceeded(f"stopped at its deadline of {seconds:g} s") from error
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
                each.check(self._context, time.monotonic())

    def close(self) -> None:
        """End the thread."""
        self._is_closed.set()
        self._thread.join(5.0)
