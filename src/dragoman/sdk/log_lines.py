"""Log lines of jobs: what tasks print, sent as progress reports `{"log": text}`.

Bounded: a report has at most `LONGEST` characters, a job at most one report each `EVERY` seconds
and `MOST` characters in all. What is left out is said. Everything here runs in the worker's loop.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from dragoman.dialects.peer_sides import Unsupported

log = structlog.get_logger("dragoman.worker")

#: Seconds between two reports of a job.
EVERY: Final = 0.25
LONGEST: Final = 8192
MOST: Final = 1 << 20
_END: Final = "(more output of this job is not sent)"


class LogLines:
    """The printed text of the running jobs that is not sent yet. `send` reports progress."""

    def __init__(
        self,
        worker: str,
        send: Callable[[str, object], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._worker = worker
        self._send = send
        self._later = later
        self._jobs: dict[str, JobLines] = {}
        #: Cleared if the dialect has no progress reports.
        self._is_possible = True

    def add(self, ticket: str, text: str) -> None:
        """Add text that a job printed; it is sent soon."""
        if not self._is_possible:
            return
        lines = self._jobs.setdefault(ticket, JobLines())
        lines.add(text)
        if not lines.is_timed:
            lines.is_timed = True
            self._later(EVERY, partial(self._due, ticket, lines))

    def _due(self, ticket: str, lines: "JobLines") -> None:
        lines.is_timed = False
        if self._jobs.get(ticket) is lines:
            self._flush(ticket, lines)

    def end(self, ticket: str) -> None:
        """Send the rest of a job, before its last message."""
        lines = self._jobs.pop(ticket, None)
        if lines is not None:
            self._flush(ticket, lines)

    def _flush(self, ticket: str, lines: "JobLines") -> None:
        text = lines.take()
        if not text:
            return
        try:
            self._send(ticket, {"log": text})
        except Unsupported as error:
            self._is_possible = False
            self._jobs.clear()
            log.warning("log lines of jobs stay here", worker=self._worker, reason=str(error))


class JobLines:
    """The text of one job between two reports."""

    def __init__(self) -> None:
        self.is_timed = False
        self._text = ""
        self._left_out = 0
        self._sent = 0

    def add(self, text: str) -> None:
        """Add text. If it is too long for a report, its first lines are left out."""
        if self._sent >= MOST:
            return
        # A lone surrogate cannot be sent.
        self._text += text.encode("utf-8", "replace").decode()
        if len(self._text) > LONGEST:
            dropped, self._text = self._text[:-LONGEST], self._text[-LONGEST:]
            self._left_out += dropped.count("\n")

    def take(self) -> str:
        """Return the text of the next report; empty if there is none."""
        text, self._text = self._text.removesuffix("\n"), ""
        if self._left_out:
            text, self._left_out = f"({self._left_out} lines left out)\n{text}", 0
        if text and self._sent + len(text) >= MOST:
            text = f"{text}\n{_END}"
        self._sent += len(text)
        return text
