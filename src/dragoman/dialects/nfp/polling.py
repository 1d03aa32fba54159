"""Which worker has which job, and when to ask it for the result.

A NorFab worker keeps its result until it is asked (GET). It announces it with an event, but events
may be lost; so a job that has been silent for a while is asked about. All waits are equally long,
so the order of asking is the order of last hearing, and no heap is needed.
"""

from collections import OrderedDict

from dragoman.model.names import JobId, PeerId


class Assignment:
    """One job at one worker."""

    __slots__ = (
        "announcement",
        "asked_at",
        "attempt",
        "client",
        "due",
        "input_id",
        "is_accepted",
        "is_missing",
        "job",
        "worker",
    )

    def __init__(self, worker: PeerId, job: JobId, client: bytes, attempt: int) -> None:
        self.worker = worker
        self.job = job
        #: The client frame that goes with every message about it.
        self.client = client
        self.attempt = attempt
        self.due = 0.0
        #: When the result was last asked for, if no answer came yet.
        self.asked_at: float | None = None
        #: The worker's own `result_ready` event, held back until the result is on record.
        self.announcement: bytes | None = None
        self.input_id = ""
        self.is_accepted = False
        #: Whether the worker said once that it does not know the job. A worker that was stalled may
        #: answer a GET before it has stored the POST that came earlier, so once is not enough.
        self.is_missing = False


class Assignments:
    """All assignments of a link, the one to ask about next first."""

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
        """Begin to watch over a job at a worker, anew if it was watched before."""
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
        """Return the assignment of a job at a worker, if it is watched."""
        return self._by_due.get((job, worker))

    def heard(self, found: Assignment, now: float) -> None:
        """Put off the next question: the worker just spoke about this job."""
        found.due = now + self.every
        found.asked_at = None
        self._by_due.move_to_end((found.job, found.worker))

    def asked(self, found: Assignment, now: float) -> None:
        """Remember that the question is on its way."""
        self.heard(found, now)
        found.asked_at = now

    def put_off(self, found: Assignment, now: float) -> None:
        """Ask later."""
        found.due = now + self.every
        self._by_due.move_to_end((found.job, found.worker))

    def drop(self, worker: PeerId, job: JobId) -> None:
        """Stop watching a job at a worker."""
        if self._by_due.pop((job, worker), None) is not None:
            workers = self._by_job[job]
            del workers[worker]
            if not workers:
                del self._by_job[job]

    def drop_job(self, job: JobId) -> None:
        """Stop watching a job everywhere."""
        for worker in list(self._by_job.get(job, ())):
            self.drop(worker, job)

    def overdue(self, now: float) -> list[Assignment]:
        """Return what to ask about, put off or drop now."""
        found = []
        for assignment in self._by_due.values():
            if assignment.due > now:
                break
            found.append(assignment)
        return found

    def next_deadline(self) -> float | None:
        """Return when the next question is due."""
        return next(iter(self._by_due.values())).due if self._by_due else None

    def validate(self) -> None:
        """Assert that both indexes tell the same, in order."""
        assert {(j, w) for j, ws in self._by_job.items() for w in ws} == set(self._by_due)
        dues = [found.due for found in self._by_due.values()]
        assert dues == sorted(dues)
        assert len(self) <= self.bound
