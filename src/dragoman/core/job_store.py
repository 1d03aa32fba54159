"""All jobs, as a fold of the ledger's records.

The store changes only through `apply`, which takes one record. So the live broker and a recovered
one run the same code and cannot disagree. What is not recorded (connections, queues, timers) must
not live here.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from dragoman.core.families import Families
from dragoman.core.jobs import Job, JobPart, is_single
from dragoman.core.queue_state import QueueState
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, TRANSITIONS, JobState
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.target import Named, parse_target
from dragoman.model.terms import read_terms

#: Looking a member up by calling the Enum costs more than the rest of a step.
_STATES: Final = {str(state): state for state in JobState}
_LOST: Final = FaultCode.WORKER_LOST.value
#: Faults of attempts that did not run. After any other fault but a lost worker, the task failed.
_UNRUN: Final = frozenset({FaultCode.HANDED_BACK.value, FaultCode.UNDELIVERED.value})


class JobStore:
    """All jobs by id, and counts of all records."""

    def __init__(self, is_cut: bool = False) -> None:
        #: Whether older records may be gone: then records of unknown jobs are only counted.
        self.is_cut = is_cut
        self.jobs: dict[JobId, Job] = {}
        #: (principal, idempotency key) -> job
        self.keys: dict[tuple[Principal, str], JobId] = {}
        #: Other ids that clients submitted a known job under -> job
        self.aliases: dict[JobId, JobId] = {}
        #: (service, request digest) -> the newest success, for memoised services
        self.memo: dict[tuple[ServiceName, str], Job] = {}
        #: Finished jobs, oldest first.
        self.finished: deque[Job] = deque()
        self.families = Families(self.jobs)
        self.open_jobs = 0
        #: Records by kind, and final states by name.
        self.counts: Counter[str] = Counter()
        #: Open worker sessions according to the records: peer -> name.
        self.sessions: dict[PeerId, WorkerName] = {}
        #: Workers that are here, or hold work: peer -> the newest record of its joining, and whom
        #: it belonged to.
        self.joins: dict[PeerId, tuple[int, Principal]] = {}
        #: The newest record of a start.
        self.started_seq = 0
        #: Workers whose jobs wait longer than the default after a restart: peer -> seconds.
        self.graces: dict[PeerId, float] = {}
        #: Peer -> position of its last recorded state, for sides that keep some in the ledger.
        self.peer_states: dict[PeerId, int] = {}
        #: Worker -> position of its last result, until it leaves.
        self.results: dict[PeerId, int] = {}
        #: Schedules, dead letters, paused services, drained workers.
        self.queue = QueueState()
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
        if step is None:
            return
        if self.is_cut and self._lacks_job(record):
            step = _STEPS_WITHOUT_JOB.get(record.kind)
        if step is not None:
            step(self, record)

    def _lacks_job(self, record: Record) -> bool:
        """Tell whether retention has removed the beginning of a record's job."""
        return record.kind in _OF_A_JOB and record.job not in self.jobs

    def _submitted(self, record: Record, job: Job | None = None) -> None:
        job = job or Job(record, parse_target(record.target), read_terms(record.terms), None)
        if job.id in self.jobs:
            del self.jobs[job.id]  # jobs stand in the order of their submission
        self.jobs[job.id] = job
        self.open_jobs += 1
        if job.key:
            self.keys[job.principal, job.key] = job.id
        if job.parent:
            self.families.add(job)
        if job.terms.unique is not None:
            self.queue.uniques.submitted(job, self.jobs)
        if is_single(job):
            job.parts = [JobPart(job, 0, None)]
            job.request = None

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
        job.request = None

    def _moved(self, record: Record) -> None:
        job = self.jobs[JobId(record.job)]
        if record.part == len(job.parts):
            job.parts.append(_split_off(job, record))
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
        part.dispatched_at, part.retry_at = record.at, 0.0
        part.dispatch_seq, part.accept_seq, part.answers = record.seq, 0, record.count
        part.job.state = JobState.RUNNING
        limits = self.queue.limits
        if limits.rules or part.job.terms.limit is not None:
            limits.spend(part, record.at)

    def _accepted(self, record: Record) -> None:
        self._part(record).accept_seq = record.seq

    def _requeued(self, record: Record) -> None:
        self._note_result(record)
        part = self._part(record)
        _move(part, JobState.QUEUED)
        part.is_waiting_for_input = False
        part.worker, part.peer = WorkerName(""), PeerId("")
        if record.fault in _UNRUN:
            part.returned += 1
            part.refusals = (part.refusals or {}) | {WorkerName(record.worker): record.detail}
        else:
            part.setback = _fault(record)
            if record.fault != _LOST:
                part.failures += 1
                self.families.release_failed(part.job.id, self.finished.append)
        part.retry_at = record.at + record.count / 1000 if record.count else 0.0
        if record.target and isinstance(new := parse_target(record.target), Named):
            # Its resource has a new owner.
            part.bound = new.names[0]
            part.job.has_moved = True
        part.job.state = _state_of(part.job)

    def _forwarded(self, record: Record) -> None:
        self._note_result(record)
        part = self._part(record)
        _move(part, JobState.QUEUED)
        part.is_waiting_for_input = False
        part.worker, part.peer, part.bound = WorkerName(""), PeerId(""), None
        part.service = ServiceName(record.service)
        part.target = parse_target(record.target)
        if isinstance(part.target, Named):
            part.bound = part.target.names[0]
        part.task = record.task
        part.request_seq, part.nbytes = record.seq, record.nbytes
        # After a forward, the count of attempts starts again.
        part.returned, part.failures = part.attempt, 0
        part.job.hops += 1
        part.job.has_moved = True
        part.job.state = _state_of(part.job)

    def _gathered(self, record: Record) -> None:
        self._note_result(record)
        part = self._part(record)
        self._end_part(part, record)
        part.job.state = _state_of(part.job)

    def _ended(self, record: Record) -> None:
        self._note_result(record)
        job = self.jobs[JobId(record.job)]
        for part in job.parts:
            if part.state not in FINAL:
                self._end_part(part, record)
        job.state = _STATES[record.state]
        job.fault = _fault(record)
        job.ended_at = record.at
        self.open_jobs -= 1
        self.counts[record.state] += 1
        self.families.ended(job, self.finished.append)
        if job.terms.unique is not None:
            self.queue.uniques.ended(job)
        if job.state is not JobState.SUCCEEDED:
            self.queue.ended(job)
        if job.terms.memoize and job.state is JobState.SUCCEEDED and is_single(job):
            self.memo[job.service, job.digest] = job

    def _end_part(self, part: JobPart, record: Record) -> None:
        _move(part, _STATES[record.state])
        part.fault = _fault(record)
        # The body of a memoised result is stored with the earlier job's record.
        part.result_seq = record.count or (record.seq if record.nbytes else 0)
        part.is_waiting_for_input = False

    def _note_result(self, record: Record) -> None:
        if record.nbytes and record.peer:
            self.results[PeerId(record.peer)] = record.seq

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
        self.joins[PeerId(record.peer)] = (record.seq, Principal(record.principal))
        if record.count:
            self.graces[PeerId(record.peer)] = float(record.count)

    def _left(self, record: Record) -> None:
        self.sessions.pop(PeerId(record.peer), None)
        self.joins.pop(PeerId(record.peer), None)
        self.results.pop(PeerId(record.peer), None)

    def _changed(self, record: Record) -> None:
        """Note the state of a peer; a record without a body says that it is forgotten."""
        if record.peer and record.nbytes:
            self.peer_states[PeerId(record.peer)] = record.seq
        elif record.peer:
            self.peer_states.pop(PeerId(record.peer), None)

    def _forgotten(self, record: Record) -> None:
        for key in [k for k in self.memo if k[0] == record.service]:
            del self.memo[key]

    def _result_forgotten(self, record: Record) -> None:
        # The job may have left the memory before.
        job = self.jobs.get(JobId(record.job))
        if job is not None and job.is_final:
            job.forgotten_at = record.at

    def _started(self, record: Record) -> None:
        self.started_seq = record.seq
        self.sessions.clear()
        if self.graces or self.results or self.joins:
            running = (job for job in self.jobs.values() if job.state is JobState.RUNNING)
            holders = {part.peer for job in running for part in job.open_parts()}
            self.graces = {p: grace for p, grace in self.graces.items() if p in holders}
            self.results = {p: seq for p, seq in self.results.items() if p in holders}
            self.joins = {p: join for p, join in self.joins.items() if p in holders}

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
            self.families.forget(job)
        if self.memo.get((job.service, job.digest)) is job:
            del self.memo[job.service, job.digest]
        # Break the cycle between job and parts. Otherwise both stay in memory, with their results,
        # until the garbage collector runs, which is rare in a broker.
        job.parts = []

    def as_recorded(self) -> dict[JobId, tuple[object, ...]]:
        """Return everything the records say, to compare two stores."""
        return {job.id: job.as_recorded() for job in self.jobs.values()}


def _split_off(job: Job, record: Record) -> JobPart:
    """Return a new part with the request of the part that it was split off from."""
    new = JobPart(job, record.part, None)
    for other in job.parts:
        if (other.service, other.task) == (record.service, record.task):
            new.service, new.task = other.service, other.task
            new.request_seq, new.nbytes = other.request_seq, other.nbytes
    return new


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
    Kind.ACCEPTED: JobStore._accepted,
    Kind.REQUEUED: JobStore._requeued,
    Kind.FORWARDED: JobStore._forwarded,
    Kind.GATHERED: JobStore._gathered,
    Kind.ENDED: JobStore._ended,
    Kind.CANCEL_ASKED: JobStore._cancel_asked,
    Kind.INPUT_ASKED: JobStore._input_asked,
    Kind.INPUT_GIVEN: JobStore._input_given,
    Kind.JOINED: JobStore._joined,
    Kind.RESYNCED: JobStore._joined,
    Kind.LATE: JobStore._note_result,
    Kind.LEFT: JobStore._left,
    Kind.CHANGED: JobStore._changed,
    Kind.FORGOTTEN: JobStore._forgotten,
    Kind.RESULT_FORGOTTEN: JobStore._result_forgotten,
    Kind.STARTED: JobStore._started,
    Kind.SCHEDULED: lambda store, record: store.queue.scheduled(record),
    Kind.UNSCHEDULED: lambda store, record: store.queue.unscheduled(record),
    Kind.TICKED: lambda store, record: store.queue.ticked(record),
    Kind.DROPPED: lambda store, record: store.queue.dropped(record),
    Kind.PAUSED: lambda store, record: store.queue.paused_service(record),
    Kind.LIMITED: lambda store, record: store.queue.limits.limited(record),
    Kind.RESUMED: lambda store, record: store.queue.resumed_service(record),
    Kind.DRAINED: lambda store, record: store.queue.drained_worker(record),
    Kind.UNDRAINED: lambda store, record: store.queue.undrained_worker(record),
}
#: What a record says beside what it says of its job.
_STEPS_WITHOUT_JOB: Final[dict[str, Callable[[JobStore, Record], None]]] = {
    Kind.REQUEUED: JobStore._note_result,
    Kind.FORWARDED: JobStore._note_result,
    Kind.GATHERED: JobStore._note_result,
    Kind.ENDED: JobStore._note_result,
}
#: Records that change a job, so that its `submitted` record must be known.
_OF_A_JOB: Final = frozenset(
    {
        Kind.ADOPTED,
        Kind.BOUND,
        Kind.MOVED,
        Kind.DISPATCHED,
        Kind.ACCEPTED,
        Kind.REQUEUED,
        Kind.FORWARDED,
        Kind.GATHERED,
        Kind.ENDED,
        Kind.CANCEL_ASKED,
        Kind.INPUT_ASKED,
        Kind.INPUT_GIVEN,
    }
)
