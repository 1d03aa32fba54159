"""A job and its parts: one request, and its assignments to workers.

Recorded members change only through `JobStore.apply`. Timers, queue positions and cached bodies are
not recorded; they are members because every user of a part needs them.
"""

from typing import Any, Final

from dragoman.core.deadlines import Timer
from dragoman.model.body import Body
from dragoman.model.fault import Fault
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Record
from dragoman.model.target import AnyWorker, Labelled, OnResource, Target
from dragoman.model.terms import Terms

_SINGLE: Final = frozenset({AnyWorker, Labelled})
_NO_WORKER: Final = WorkerName("")
_NO_PEER: Final = PeerId("")


class JobPart:
    """One assignment of a job, to be run by one worker."""

    __slots__ = (
        "accept_seq",
        "answers",
        "attempt",
        "body",
        "bound",
        "dispatch_seq",
        "dispatched_at",
        "entry_id",
        "failures",
        "fault",
        "index",
        "is_waiting_for_input",
        "job",
        "nbytes",
        "patience_timer",
        "peer",
        "queued_client",
        "queued_in",
        "refusals",
        "refused_by",
        "request",
        "request_seq",
        "result_seq",
        "retry_at",
        "retry_timer",
        "returned",
        "run_timer",
        "service",
        "setback",
        "slots",
        "state",
        "target",
        "task",
        "worker",
    )

    def __init__(self, job: "Job", index: int, bound: WorkerName | None) -> None:
        self.job = job
        self.index = index
        #: The only worker that may run it; None: any that matches the job's target.
        self.bound = bound
        self.state = JobState.QUEUED
        #: The number of its last dispatch.
        self.attempt = 0
        #: Dispatches that were returned unrun; they do not count against `max_attempts`.
        self.returned = 0
        #: Attempts that the worker ran and that failed; they count against the retries.
        self.failures = 0
        #: When the next attempt may start, and the fault of the last one.
        self.retry_at = 0.0
        self.setback: Fault | None = None
        self.worker = _NO_WORKER
        self.peer = _NO_PEER
        self.fault: Fault | None = None
        self.result_seq = 0
        self.dispatched_at = 0.0
        #: Positions of its last dispatch, and of the worker's confirmation that it has it.
        self.dispatch_seq = 0
        self.accept_seq = 0
        #: The number of the worker's request that its last dispatch answers; 0: it has none.
        self.answers = 0
        self.is_waiting_for_input = False
        #: Workers that refused it, with their last reason. None instead of empty: rarely used.
        self.refusals: dict[WorkerName, str] | None = None
        #: These five change when a worker forwards the job.
        self.service = job.service
        self.target = job.target
        self.task = job.task
        self.request_seq = job.submit_seq
        self.nbytes = job.nbytes
        # Not recorded; rebuilt after a restart:
        #: The request while it waits in memory; None: the ledger has it, at `request_seq`.
        self.request: Body | None = job.request
        self.body: Body | None = None
        #: The lane it waits in, its entry there, and the client it is queued for.
        self.queued_in: Any = None
        self.entry_id = 0
        self.queued_client = job.client
        self.refused_by: set[WorkerName] | None = None
        #: The limiters that count it while it runs.
        self.slots: tuple[Any, ...] | None = None
        self.patience_timer: Timer | None = None
        self.retry_timer: Timer | None = None
        self.run_timer: Timer | None = None

    @property
    def losses(self) -> int:
        """The attempts that were lost with their worker, and the running one."""
        return self.attempt - self.returned - self.failures

    @property
    def key(self) -> tuple[JobId, int]:
        """Unique among all parts. Made when it is needed: most parts wait, and need none."""
        return (self.job.id, self.index)

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources it is for, if it is for any."""
        return self.target.resources if type(self.target) is OnResource else ()

    def as_recorded(self) -> tuple[object, ...]:
        """Return everything the records say about this part."""
        return (
            self.bound,
            self.state,
            self.attempt,
            self.returned,
            self.failures,
            self.retry_at,
            self.worker,
            self.peer,
            self.fault.code if self.fault else None,
            self.result_seq,
            self.service,
            str(self.target),
            self.task,
            self.request_seq,
            self.nbytes,
            self.dispatch_seq,
            self.accept_seq,
            self.answers,
            self.is_waiting_for_input,
        )


class Job:
    """One request and its parts."""

    __slots__ = (
        "aliases",
        "cancel_asked_at",
        "cancel_timer",
        "cancellers",
        "client",
        "client_job_id",
        "deadline_at",
        "deadline_timer",
        "dialect",
        "digest",
        "ended_at",
        "fault",
        "forgotten_at",
        "has_moved",
        "hops",
        "id",
        "key",
        "nbytes",
        "parent",
        "parts",
        "position",
        "principal",
        "queue_timer",
        "request",
        "result_timer",
        "service",
        "start_timer",
        "state",
        "submit_seq",
        "submitted_at",
        "target",
        "task",
        "terms",
        "unbound_timer",
    )

    def __init__(self, record: Record, target: Target, terms: Terms, request: Body | None) -> None:
        self.id = JobId(record.job)
        #: The id its client uses: another one if the job was found by its key.
        self.client_job_id = self.id
        self.aliases: tuple[JobId, ...] = ()
        self.client = PeerId(record.client)
        self.service = ServiceName(record.service)
        self.task = record.task
        self.target = target
        self.terms = terms
        self.key = record.key
        #: The job whose task submitted this one, and the place among its children; or empty.
        self.parent = JobId(record.parent)
        self.position = record.position
        self.principal = Principal(record.principal)
        self.dialect = record.dialect
        self.digest = record.digest
        #: Size of its request.
        self.nbytes = record.nbytes
        self.submitted_at = record.at
        self.deadline_at = record.deadline_at
        self.submit_seq = record.seq
        self.state = JobState.QUEUED
        self.fault: Fault | None = None
        self.ended_at = 0.0
        self.cancel_asked_at = 0.0
        #: When its result was forgotten on request; 0: it was not.
        self.forgotten_at = 0.0
        self.hops = 0
        #: Whether a part moved, so that one worker may get several parts over time.
        self.has_moved = False
        self.request = request
        #: One part from the start, or none until the target is bound to workers.
        self.parts: list[JobPart] = []
        # Not recorded:
        #: Clients that asked for the cancel, with the job id each used. None: none did.
        self.cancellers: dict[PeerId, JobId] | None = None
        self.start_timer: Timer | None = None
        self.deadline_timer: Timer | None = None
        self.queue_timer: Timer | None = None
        self.cancel_timer: Timer | None = None
        self.unbound_timer: Timer | None = None
        #: Runs while a result that will expire is in memory.
        self.result_timer: Timer | None = None

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL

    @property
    def starts_at(self) -> float:
        """When the job may start: at its submission, unless it is delayed."""
        return self.terms.starts_at(self.submitted_at)

    def open_parts(self) -> list[JobPart]:
        """Return the parts that are not final."""
        return [p for p in self.parts if p.state not in FINAL]

    def as_recorded(self) -> tuple[object, ...]:
        """Return everything the records say about this job."""
        return (
            self.client,
            self.client_job_id,
            self.service,
            self.state,
            self.fault.code if self.fault else None,
            self.submitted_at,
            self.ended_at,
            self.cancel_asked_at,
            self.forgotten_at,
            self.hops,
            self.digest,
            self.parent,
            self.position,
            tuple(p.as_recorded() for p in self.parts),
        )


def is_single(job: Job) -> bool:
    """Tell whether the job goes to any one matching worker, so needs no binding."""
    return type(job.target) in _SINGLE and job.service != "all"


def is_started(job: Job) -> bool:
    """Tell whether any part of a job was ever dispatched."""
    return any(part.attempt for part in job.parts)
