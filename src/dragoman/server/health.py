"""The broker's health: what is wrong now, and background tasks that failed since the start."""

import asyncio
from collections import Counter
from collections.abc import Callable

import structlog

from dragoman.core.view import TroubleRow

log = structlog.get_logger("dragoman.health")


class Health:
    """Troubles by part. A part reports its trouble, and clears it when it is over."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._troubles: dict[str, TroubleRow] = {}
        #: Background tasks that ended with an exception, by name, since the start.
        self.task_failures: Counter[str] = Counter()

    def report(
        self, part: str, reason: str, detail: str = "", *, is_blocking: bool = False
    ) -> None:
        """Report that a part does not work. `detail` is for operators and may name paths."""
        known = self._troubles.get(part)
        since = self._now() if known is None else known.since
        self._troubles[part] = TroubleRow(part, reason, detail or reason, since, is_blocking)

    def clear(self, part: str) -> bool:
        """Report that a part works; tell whether it did not before."""
        return self._troubles.pop(part, None) is not None

    def has(self, part: str) -> bool:
        """Tell whether a part has a trouble."""
        return part in self._troubles

    def note(self, part: str, trouble: str) -> None:
        """Report a trouble of a part that tries again by itself; empty: it works."""
        if trouble:
            self.report(part, "it fails and is tried again", trouble)
        else:
            self.clear(part)

    def troubles(self) -> list[TroubleRow]:
        """Return what is wrong now, the oldest first."""
        return sorted(self._troubles.values(), key=lambda row: row.since)

    def watch(self, task: "asyncio.Task[None]") -> "asyncio.Task[None]":
        """Report a background task if it ends with an exception; return the task."""
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        name = task.get_name().removeprefix("dragoman ")
        self.task_failures[name] += 1
        detail = f"{type(error).__name__}: {error}; the log has the traceback; restart the broker"
        self.report(name, "this background task has failed", detail)
        log.error(
            "a background task has failed; restart the broker",
            task=name,
            error=str(error),
            exc_info=error,
        )
