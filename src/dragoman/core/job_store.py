"""All jobs, as a fold of the ledger's records.

The store changes only through `apply`, which takes one record. So the live broker and a recovered
one run the same code and cannot disagree. What is not recorded (connections, queues, timers) must
not live here.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from dragoman.core.jobs import Job, JobPart, is_single
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, TRANSITIONS, JobState
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.target import Named, parse_target
from dragoman.model.terms import read_terms

#: Looking a member up by calling the Enum costs more than the rest of a step.
_STATES: Final = {str(state): state for state in JobState}
_LOSSES: Final = frozenset({FaultCode.WORKER_LOST.value})


class JobStore:
    """All jobs by id, and counts of all records."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        #: (principal, idempotency key) -> job
        self.keys: dict[tuple[Principal, str], JobId] = {}
        #: Other ids that clients submitted a known job under -> job
        self.aliases: dict[JobId, JobId] = {}
        #: (service, request digest) -> the newest success, for memoised services
        self.memo: dict[tuple[ServiceName, str], Job] = {}
        #: Finished jobs, oldest first.
        self.finished: deque[Job] = deque()
        self.open_jobs = 0
        #: Records by kind, and final states by name.
        self.counts: Counter[str] = Counter()
        #: Open worker sessions according to the records: peer -> name.
        self.sessions: dict[PeerId, WorkerName] = {}
        #: Workers whose jobs wait longer than the default after a restart: peer -> seconds.
        self.graces: dict[PeerId, float] = {}
        self.last_seq = 0
        self.last_at = 0.0

    def find(self, job_id: JobId) -> Job | None:
        """Return a job by its id or one of its aliases."""
        found = self.jobs.get(job_id)
        if found is None and self.aliases:
            found = self.jobs.get(self.aliases.get(job_id, job_id))
        return found

    def apply(self, record: Record, job: Job | None = None) -> None:
        """Apply one record. Passing `job` avoids parsing a `submitted` record."""
        self.last_seq = record.seq
        self.last_at = record.at
        self.counts[record.kind] += 1
        if job is not None:
            self._submitted(record, job)
            return
        step = _STEPS.get(record.kind)
        if step is not None:
            step(self, record)

    def _submitted(self, record: Record, job: Job | None = None) -> None:
        job = job or Job(record, parse_target(record.target), read_terms(record.terms), None)
        self.jobs[job.id] = job
        self.open_jobs += 1
        if job.key:
            self.keys[job.principal, job.key] = job.id
        if is_single(job):
            job.parts.append(JobPart(job, 0, None))

    def _adopted(self, record: Record) -> None:
        job = self.jobs[JobId(record.job)]
        job.client = PeerId(record.client)
        job.client_job_id = JobId(record.detail or job.id)
        if job.client_job_id != job.id and job.client_job_id not in self.aliases:
            job.aliases += (job.client_job_id,)
            self.aliases[job.client_job_id] = job.id

    def _bound(self, record: Record) -> None:
        job = self.jobs[JobId(record.job)]
        names = record.detail.split("\n")
        job.parts = [JobPart(job, i, WorkerName(n)) for i, n in enumerate(names)]
        for part, target in zip(job.parts, record.target.split("\n"), strict=False):
            part.target = parse_target(target) if target else job.target

    def _moved(self, record: Record) -> None:
        job = self.jobs[JobId(record.job)]
        if record.part == len(job.parts):
            job.parts.append(JobPart(job, record.part, None))
        part = job.parts[record.part]
        part.bound, part.target = WorkerName(record.detail), parse_target(record.target)
        part.attempt, part.returned = record.attempt, record.count
        job.has_moved = True

    def _dispatched(self, record: Record) -> None:
        part = self._part(record)
        _move(part, JobState.RUNNING)
        # Attempt numbers used by other parts of the job do not count against this part.
        part.returned += record.attempt - part.attempt - 1
        part.attempt = record.attempt
        part.worker = WorkerName(record.worker)
        part.peer = PeerId(record.peer)
        part.dispatched_at = record.at
        part.job.state = JobState.RUNNING

    def _requeued(self, record: Record) -> None:
        part = self._part(record)
        _move(part, JobState.QUEUED)
        part.is_waiting_for_input = False
        part.worker, part.peer = WorkerName(""), PeerId("")
        if record.fault not in _LOSSES:
            part.returned += 1
            part.refusals = (part.refusals or {}) | {WorkerName(record.worker): record.detail}
        if record.target and isinstance(new := parse_target(record.target), Named):
            # Its resource has a new owner.
            part.bound = new.names[0]
            part.job.has_moved = True
        part.job.state = _state_of(part.job)

    def _forwarded(self, record: Record) -> None:
        part = self._part(record)
        _move(part, JobState.QUEUED)
        part.is_waiting_for_input = False
        part.worker, part.peer, part.bound = WorkerName(""), PeerId(""), None
        part.service = ServiceName(record.service)
        part.target = parse_target(record.target)
        if isinstance(part.target, Named):
            part.bound = part.target.names[0]
        part.task = record.task
        part.request_seq = record.seq
        # After a forward, the count of attempts starts again.
        part.returned = part.attempt
        part.job.hops += 1
        part.job.has_moved = True
        part.job.state = _state_of(part.job)

    def _gathered(self, record: Record) -> None:
        part = self._part(record)
        self._end_part(part, record)
        part.job.state = _state_of(part.job)

    def _ended(self, record: Record) -> None:
        job = self.jobs[JobId(record.job)]
        for part in job.parts:
            if part.state not in FINAL:
                self._end_part(part, record)
        job.state = _STATES[record.state]
        job.fault = _fault(record)
        job.ended_at = record.at
        self.open_jobs -= 1
        self.counts[record.state] += 1
        self.finished.append(job)
        if job.terms.memoize and job.state is JobState.SUCCEEDED and is_single(job):
            self.memo[job.service, job.digest] = job

    def _end_part(self, part: JobPart, record: Record) -> None:
        _move(part, _STATES[record.state])
        part.fault = _fault(record)
        # The body of a memoised result is stored with the earlier job's record.
        part.result_seq = record.count or (record.seq if record.nbytes else 0)
        part.is_waiting_for_input = False

    def _cancel_asked(self, record: Record) -> None:
        self.jobs[JobId(record.job)].cancel_asked_at = record.at

    def _input_asked(self, record: Record) -> None:
        self._part(record).is_waiting_for_input = True

    def _input_given(self, record: Record) -> None:
        for part in self.jobs[JobId(record.job)].parts:
            if not record.worker or part.worker == record.worker:
                part.is_waiting_for_input = False

    def _joined(self, record: Record) -> None:
        self.sessions[PeerId(record.peer)] = WorkerName(record.worker)
        if record.count:
            self.graces[PeerId(record.peer)] = float(record.count)

    def _left(self, record: Record) -> None:
        self.sessions.pop(PeerId(record.peer), None)

    def _forgotten(self, record: Record) -> None:
        for key in [k for k in self.memo if k[0] == record.service]:
            del self.memo[key]

    def _started(self, record: Record) -> None:
        self.sessions.clear()
        if self.graces:
            holders = {part.peer for job in self.jobs.values() for part in job.open_parts()}
            self.graces = {p: grace for p, grace in self.graces.items() if p in holders}

    def _part(self, record: Record) -> JobPart:
        return self.jobs[JobId(record.job)].parts[record.part]

    def forget(self, job: Job) -> None:
        """Drop a finished job from memory; the ledger still has it."""
        # The id may belong to a newer job: a replay forgets later than the live broker did.
        if self.jobs.get(job.id) is job:
            del self.jobs[job.id]
            if job.key and self.keys.get((job.principal, job.key)) == job.id:
                del self.keys[job.principal, job.key]
            for alias in job.aliases:
                del self.aliases[alias]
        if self.memo.get((job.service, job.digest)) is job:
            del self.memo[job.service, job.digest]
        # Break the cycle between job and parts. Otherwise both stay in memory, with their results,
        # until the garbage collector runs, which is rare in a broker.
        job.parts = []

    def oldest_needed(self) -> int:
        """Return the oldest record that any job in memory still needs."""
        oldest = min((j.submit_seq for j in self.jobs.values()), default=self.last_seq + 1)
        # A memoised result is stored with a record of an earlier job.
        results = (p.result_seq for j in self.jobs.values() for p in j.parts if p.result_seq)
        return min(oldest, min(results, default=oldest))

    def as_recorded(self) -> dict[JobId, tuple[object, ...]]:
        """Return everything the records say, to compare two stores."""
        return {job.id: job.as_recorded() for job in self.jobs.values()}


def _fault(record: Record) -> Fault | None:
    return Fault(FaultCode(record.fault), record.detail) if record.fault else None


def _move(part: JobPart, state: JobState) -> None:
    if state not in TRANSITIONS[part.state]:
        raise AssertionError(f"{part.key} cannot go from {part.state} to {state}")
    part.state = state


def _state_of(job: Job) -> JobState:
    """Return the state of an open job, derived from its parts."""
    for part in job.parts:
        if part.state is JobState.RUNNING:
            return JobState.RUNNING
    return JobState.QUEUED


_STEPS: Final[dict[str, Callable[[JobStore, Record], None]]] = {
    Kind.SUBMITTED: JobStore._submitted,
    Kind.ADOPTED: JobStore._adopted,
    Kind.BOUND: JobStore._bound,
    Kind.MOVED: JobStore._moved,
    Kind.DISPATCHED: JobStore._dispatched,
    Kind.REQUEUED: JobStore._requeued,
    Kind.FORWARDED: JobStore._forwarded,
    Kind.GATHERED: JobStore._gathered,
    Kind.ENDED: JobStore._ended,
    Kind.CANCEL_ASKED: JobStore._cancel_asked,
    Kind.INPUT_ASKED: JobStore._input_asked,
    Kind.INPUT_GIVEN: JobStore._input_given,
    Kind.JOINED: JobStore._joined,
    Kind.RESYNCED: JobStore._joined,
    Kind.LEFT: JobStore._left,
    Kind.FORGOTTEN: JobStore._forgotten,
    Kind.STARTED: JobStore._started,
}
