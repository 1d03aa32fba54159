"""Results that our own worker keeps until the broker has them on record.

For dialects whose text has no acknowledgement of a result. A worker asks regularly which of its
finished jobs the broker still waits for. Messages of one connection arrive in order, so a result
that arrived was recorded before the question. If the broker still waits, the result was lost with a
connection or a broker process, and the worker sends it again.
"""

from collections.abc import Hashable, Iterable

from dragoman.dialects.base import Frames


class UnconfirmedResults:
    """The results of one worker that may be lost, by job."""

    def __init__(self) -> None:
        self._results: dict[str, Frames] = {}
        #: What identifies the request of each job on the wire.
        self._marks: dict[Hashable, str] = {}

    def keep(self, job: str, mark: Hashable, frames: Frames) -> None:
        """Keep the result of a job. Requests without a job id cannot be asked about."""
        if job:
            self._results[job] = frames
            self._marks[mark] = job

    def result_of(self, mark: Hashable) -> Frames | None:
        """Return the kept result of a request, for a broker that polls for it."""
        return self._results.get(self._marks.get(mark, ""))

    def jobs(self) -> list[str]:
        """Return the jobs to ask about."""
        return list(self._results)

    def settle(self, recorded: Iterable[object], open_jobs: Iterable[object]) -> list[Frames]:
        """Drop recorded results; return those that the broker still waits for."""
        for job in recorded:
            self._results.pop(str(job), None)
        self._marks = {mark: job for mark, job in self._marks.items() if job in self._results}
        return [self._results[job] for job in map(str, open_jobs) if job in self._results]
