"""Which worker has which job, and when to poll the worker for the result.

A NorFab worker keeps its result until a GET. It announces the result with an event, but events may
be lost. So the broker polls for a job after some silence. All intervals are equal, so assignments
ordered by last report are ordered by due time, and no heap is needed.
"""

from collections import OrderedDict

from dragoman.model.names import JobId, PeerId


class Assignment:
    """One job on one worker."""

    __slots__ = (
        "announcement",
        "asked_at",
        "attempt",
        "client",
        "due",
        "input_id",
        "is_accepted",
        "is_cancelled",
        "is_missing",
        "job",
        "worker",
    )

    def __init__(self, worker: PeerId, job: JobId, client: bytes, attempt: int) -> None:
        self.worker = worker
        self.job = job
        #: The client frame of every message about it.
        self.client = client
        self.attempt = attempt
        self.due = 0.0
        #: When the last poll was sent, if it is unanswered.
        self.asked_at: float | None = None
        #: The worker's own `result_ready` event, held back until the result is recorded.
        self.announcement: bytes | None = None
        self.input_id = ""
        self.is_accepted = False
        #: Whether the worker was told to stop it.
        self.is_cancelled = False
        #: Whether the worker answered 404 once. A stalled worker may answer a GET before it has
        #: stored an earlier POST, so one 404 is not enough.
        self.is_missing = False


class Assignments:
    """All assignments of a link, the next one to poll first."""

    def __init__(self, every: float, bound: int) -> None:
        self.every = every
        self.bound = bound
        self._by_due: OrderedDict[tuple[JobId, PeerId], Assignment] = OrderedDict()
        self._by_job: dict[JobId, dict[PeerId, Assignment]] = {}

    def __len__(self) -> int:
        return len(self._by_due)

    def track(
        self, worker: PeerId, job: JobId, client: bytes, attempt: int, now: float
    ) -> Assignment:
        """Track a job on a worker. An earlier assignment of the two is replaced."""
        self.drop(worker, job)
        found = Assignment(worker, job, client, attempt)
        found.due = now + self.every
        self._by_due[job, worker] = found
        self._by_job.setdefault(job, {})[worker] = found
        if len(self._by_due) > self.bound:
            oldest = next(iter(self._by_due.values()))
            self.drop(oldest.worker, oldest.job)
        return found

    def find(self, worker: PeerId, job: JobId) -> Assignment | None:
        """Return the assignment of a job on a worker, if it is tracked."""
        return self._by_due.get((job, worker))

    def touch(self, found: Assignment, now: float) -> None:
        """Postpone the next poll: the worker just reported on this job."""
        found.due = now + self.every
        found.asked_at = None
        self._by_due.move_to_end((found.job, found.worker))

    def polled(self, found: Assignment, now: float) -> None:
        """Remember that a poll was sent."""
        self.touch(found, now)
        found.asked_at = now

    def postpone(self, found: Assignment, now: float) -> None:
        """Poll one interval later."""
        found.due = now + self.every
        self._by_due.move_to_end((found.job, found.worker))

    def drop(self, worker: PeerId, job: JobId) -> None:
        """Stop tracking a job on a worker."""
        if self._by_due.pop((job, worker), None) is not None:
            workers = self._by_job[job]
            del workers[worker]
            if not workers:
                del self._by_job[job]

    def drop_job(self, job: JobId) -> None:
        """Stop tracking a job on all workers."""
        for worker in list(self._by_job.get(job, ())):
            self.drop(worker, job)

    def overdue(self, now: float) -> list[Assignment]:
        """Return the assignments whose poll is due."""
        found = []
        for assignment in self._by_due.values():
            if assignment.due > now:
                break
            found.append(assignment)
        return found

    def next_deadline(self) -> float | None:
        """Return when the next poll is due."""
        return next(iter(self._by_due.values())).due if self._by_due else None

    def validate(self) -> None:
        """Assert that both indexes agree and are in order."""
        assert {(j, w) for j, ws in self._by_job.items() for w in ws} == set(self._by_due)
        dues = [found.due for found in self._by_due.values()]
        assert dues == sorted(dues)
        assert len(self) <= self.bound
