"""The state of the broker, and the two ways out of it: records and sends.

`store` holds what the records say; it changes only with a record. Everything else here
(connected peers, queues, timers) is rebuilt from the store and from peers that reconnect.
"""

from collections import OrderedDict
from dataclasses import replace

from dragoman.core.deadlines import Deadlines, TimerKind
from dragoman.core.effects import Append, Effect, JobStatus, PartStatus, SendReply
from dragoman.core.events import ReplyKind
from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart
from dragoman.core.limiters import Limiters
from dragoman.core.limits import Limits
from dragoman.core.queues import Queues
from dragoman.core.records import About, build_record
from dragoman.core.registry import RegisteredWorker, WorkerRegistry
from dragoman.core.resources import Distribution
from dragoman.core.results import result_gone
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName, link_of
from dragoman.model.record import Kind, Record


class ClientInfo:
    """What the broker remembers of a client. Shown by management; no decision depends on it."""

    __slots__ = ("first_seen_at", "jobs", "seen_at")

    def __init__(self, now: float) -> None:
        self.first_seen_at = now
        self.seen_at = now
        self.jobs = 0


class BrokerState:
    """The state that all handlers share; one instance per broker."""

    def __init__(self, limits: Limits, store: JobStore) -> None:
        self.limits = limits
        self.store = store
        self.registry = WorkerRegistry()
        self.deadlines = Deadlines()
        self.limiters = Limiters(store.queue.limits, self.deadlines)
        self.queues = Queues(limits.queued_memory, self.limiters)
        #: Workers whose session ended but which may come back to the parts they hold.
        self.absent: dict[PeerId, RegisteredWorker] = {}
        self.clients: OrderedDict[PeerId, ClientInfo] = OrderedDict()
        #: Clients that left and have sent nothing since, in the order they left.
        self.departed_clients: OrderedDict[PeerId, None] = OrderedDict()
        #: Declared resources by service; resources that move, with the workers yet to confirm.
        self.distributions: dict[ServiceName, Distribution] = {}
        self.moving: dict[str, set[PeerId]] = {}
        self.moving_by_worker: dict[PeerId, set[str]] = {}
        #: Workers whose resources changed since the last `owns` record.
        self.unannounced: dict[tuple[ServiceName, PeerId], None] = {}
        self.is_draining = False
        #: Why the ledger takes no records; empty: it does. And the jobs refused for it.
        self.blocked_because = ""
        self.refused_while_blocked = 0
        self.now = 0.0
        #: After a restart, no patience ends before this: workers need time to come back.
        self.recovery_ends_at = 0.0
        self.out: list[Effect] = []
        #: Jobs that ended or are cancelled: their open children are cancelled next.
        self.orphaning: list[Job] = []
        #: Finished jobs whose results are in memory, oldest first -> size in bytes.
        self.cached: OrderedDict[JobId, int] = OrderedDict()
        self.cached_bytes = 0

    def record(
        self,
        kind: Kind,
        about: About = None,
        *,
        by: RegisteredWorker | None = None,
        failure: Fault | None = None,
        body: Body | None = None,
        **fields: object,
    ) -> int:
        """Write a record and its body; return its sequence number. See `build_record`."""
        seq = self.next_seq
        record = build_record(seq, self.now, kind, about, by, failure, body, fields)
        self.append(record, body)
        return seq

    def append(self, record: Record, body: Body | None = None, job: Job | None = None) -> None:
        """Apply a record to the store and have it written to the ledger."""
        self.store.apply(record, job)
        self.out.append(Append(record, body))

    @property
    def next_seq(self) -> int:
        """The sequence number of the next record."""
        return self.store.last_seq + 1

    def reply(
        self,
        job: Job,
        kind: ReplyKind,
        *,
        part: JobPart | None = None,
        body: Body = EMPTY,
        fault: Fault | None = None,
        workers: tuple[WorkerName, ...] = (),
        state: JobState | None = None,
        seq: int = 0,
    ) -> None:
        """Send a reply to the job's client, unless it has left."""
        if self.departed_clients and job.client in self.departed_clients:
            return
        self.out.append(
            SendReply(
                job.client,
                job.client_job_id,
                kind,
                part.service if part else job.service,
                part.worker if part else WorkerName(""),
                body,
                fault,
                workers,
                state,
                seq,
                job.terms.strict,
                part.resources if part else (),
            )
        )

    def holder(self, part: JobPart) -> RegisteredWorker | None:
        """Return the worker that holds a part, connected or absent."""
        return self.registry.workers.get(part.peer) or self.absent.get(part.peer)

    def touch_client(self, peer: PeerId) -> ClientInfo:
        """Note that a client sent something; forget the least recently seen one."""
        if self.departed_clients:
            self.departed_clients.pop(peer, None)
        client = self.clients.get(peer)
        if client is None:
            client = self.clients[peer] = ClientInfo(self.now)
            if len(self.clients) > self.limits.clients:
                self.clients.popitem(last=False)
        else:
            self.clients.move_to_end(peer)
            client.seen_at = self.now
        return client

    def forget_client(self, peer: PeerId) -> None:
        """Send nothing more to a client that left, until it sends something again."""
        self.clients.pop(peer, None)
        self.departed_clients[peer] = None
        if len(self.departed_clients) > self.limits.clients:
            self.departed_clients.popitem(last=False)

    def cache_result(self, job: Job) -> None:
        """Keep a finished job's results in memory; drop the oldest beyond the limit."""
        size = 0
        for part in job.parts:
            if part.body is not None:
                size += part.body.size
        if not size:
            return
        self.cached[job.id] = size
        self.cached_bytes += size
        if job.terms.result_ttl is not None:
            at = job.ended_at + job.terms.result_ttl
            job.result_timer = self.deadlines.set(at, TimerKind.RESULT, job)
        while self.cached_bytes > self.limits.result_bytes:
            self.drop_cached_result(self.store.jobs[next(iter(self.cached))])

    def drop_cached_result(self, job: Job) -> None:
        """Drop a finished job's results from memory."""
        self.cached_bytes -= self.cached.pop(job.id, 0)
        for part in job.parts:
            part.body = None
        self.deadlines.cancel(job.result_timer)
        job.result_timer = None

    def gone(self, job: Job) -> Fault | None:
        """Return why the result of a job is given out no more; None: it is.

        A child's result is given out while its parent is open, which may run again.
        """
        found = result_gone(job, self.now)
        return None if found is not None and self.is_held(job) else found

    def is_held(self, job: Job) -> bool:
        """Whether a finished job is a step of an open one, which may ask for its result again."""
        return job.id in self.store.families.held


def dialect_of(peer: PeerId) -> str:
    """Return a peer's dialect: the first word of its link's name."""
    return link_of(peer).partition("_")[0]


def status_of(job: Job, gone: Fault | None = None) -> JobStatus:
    """Return the status of a job. `gone`: why its result is given out no more."""
    if gone is not None:
        return _status_without_result(job, gone)
    return JobStatus(
        job=job.id,
        state=job.state,
        service=job.service,
        client=job.client,
        parts=tuple(
            PartStatus(
                *(p.bound or p.worker, p.state, p.attempt, p.fault, p.result_seq, p.body),
                p.resources,
            )
            for p in job.parts
        ),
        fault=job.fault,
        is_waiting_for_input=any(p.is_waiting_for_input for p in job.parts),
        is_cancelling=bool(job.cancel_asked_at) and not job.is_final,
        submitted_at=job.submitted_at,
        ended_at=job.ended_at,
        task=job.task,
        target=str(job.target),
    )


def _status_without_result(job: Job, gone: Fault) -> JobStatus:
    """Return the status of a job whose result is gone: a success says so, part by part."""
    status = status_of(job)
    parts = (
        replace(
            part,
            seq=0,
            body=None,
            fault=gone if part.state is JobState.SUCCEEDED else part.fault,
        )
        for part in status.parts
    )
    without: JobStatus = replace(status, parts=tuple(parts), fault=status.fault or gone)
    return without
