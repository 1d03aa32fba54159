"""Events: every input of the broker.

Dialects turn messages of peers into events; the server loop adds the time. All policy comes in as
fields, so the core never asks which dialect an event came from.
"""

from collections.abc import Mapping
from enum import StrEnum

from dragoman.model.body import EMPTY, Body
from dragoman.model.capacity import Capacity
from dragoman.model.fault import Fault
from dragoman.model.limit import Limit
from dragoman.model.names import ANONYMOUS, JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.schedule import Schedule
from dragoman.model.target import ANY, Target
from dragoman.model.terms import Terms
from dragoman.model.value import field, value


class ReplyKind(StrEnum):
    """What a reply reports. Workers send ACCEPTED to FINAL; clients receive all kinds."""

    #: The broker holds the job (durably, if strict), and it waits. Not sent if a worker has it now.
    QUEUED = "queued"
    DISPATCHED = "dispatched"  #: these workers have the job
    ACCEPTED = "accepted"  #: the worker confirmed that it has the job
    PROGRESS = "progress"
    CHUNK = "chunk"  #: a piece of a stream, in order
    INPUT_ASKED = "input_asked"  #: the worker waits for the client's answer
    PART = "part"  #: the result of one of several workers
    FINAL = "final"  #: the job ended; carries the result if the job had one part


@value
class JobSubmitted:
    """A client submitted a job. The same job id or key again is the same job."""

    job: JobId
    client: PeerId
    service: ServiceName
    body: Body
    target: Target = ANY
    terms: Terms = Terms()
    task: str = ""
    key: str = ""
    principal: Principal = ANONYMOUS


@value
class JobCancelled:
    """A client cancelled a job. The answer is the job's status."""

    job: JobId
    client: PeerId
    principal: Principal = ANONYMOUS


@value
class InputReceived:
    """A client sent input to a running job: to one of its workers, or to all."""

    job: JobId
    client: PeerId
    body: Body
    worker: WorkerName | None = None
    principal: Principal = ANONYMOUS


@value
class ResultRequested:
    """A client, not necessarily the submitter, asked for the status of a job."""

    job: JobId
    client: PeerId
    principal: Principal = ANONYMOUS


@value
class WorkerJoined:
    """A worker registered, or registered again (a resync keeps its assignments)."""

    worker: PeerId
    name: WorkerName
    services: tuple[ServiceName, ...]
    #: How many jobs it may get; None: no limit. Each dispatch takes one.
    credit: int | None = None
    #: Whether a finished job gives its credit back. If not, only `CreditGranted` does.
    credit_returns: bool = False
    #: Interval of heartbeats in both directions, in seconds; None: no heartbeats.
    beat_every: float | None = None
    #: The worker is lost after this many silent intervals.
    missed_allowed: int = 6
    #: The same while it holds a job, for peers that send nothing while they compute.
    missed_allowed_busy: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Capacity | None = None
    #: Resources it announces that it owns.
    resources: tuple[str, ...] = ()
    #: Whether it can stop a job on request and confirms that it did.
    can_cancel: bool = False
    #: The jobs it reports to hold; None: not reported, so it keeps all its assignments.
    holds: frozenset[JobId] | None = None
    principal: Principal = ANONYMOUS
    dialect: str = ""
    #: A built-in service: reached by its name only, never by the service `all`.
    is_builtin: bool = False
    #: How long its jobs wait for it after a broker restart; 0: the default.
    rejoins_within: float = 0.0
    #: The brokers that its jobs pass, this worker first; empty: it runs them itself.
    route: tuple[str, ...] = ()


@value
class CreditGranted:
    """A worker is ready for `credit` more jobs."""

    worker: PeerId
    credit: int = 1
    #: The number of the request that waits for the next job, if the wire numbers requests.
    request: int = 0


@value
class BeatReceived:
    """A worker sent a heartbeat. `capacity`: what it has free beside the jobs it holds."""

    worker: PeerId
    capacity: Capacity | None = None


@value
class ReplyReceived:
    """A worker sent a reply about a job it holds.

    FINAL without a fault is success. FINAL with the fault `handed_back` returns the job unrun;
    `cancelled` confirms a cancel; any other fault means that the task failed.
    """

    worker: PeerId
    job: JobId
    kind: ReplyKind
    body: Body = EMPTY
    fault: Fault | None = None
    #: The attempt it answers, if the wire format carries it; None: the current one.
    attempt: int | None = None


@value
class JobForwarded:
    """A worker forwarded its job to another service; the client stays the same."""

    worker: PeerId
    job: JobId
    service: ServiceName
    body: Body
    target: Target = ANY
    task: str = ""
    #: The attempt it forwards, if the wire format carries it; None: the current one.
    attempt: int | None = None


@value
class DeliveryFailed:
    """A message was not delivered: the peer's queue is full, or the peer is gone."""

    peer: PeerId
    is_gone: bool
    #: The job that the message was about.
    job: JobId | None = None
    attempt: int = 0
    #: Set if the content has no form in the peer's dialect, so a retry cannot succeed.
    fault: Fault | None = None


@value
class PeerLeft:
    """A peer disconnected or its connection ended."""

    peer: PeerId
    reason: str
    #: How long its assignments wait for it before they go to other workers.
    grace: float = 0.0


@value
class LedgerBlocked:
    """The ledger takes no records, for this reason; without one: it takes them again."""

    reason: str = ""


@value
class DrainRequested:
    """Drain this worker; without a peer, the whole broker.

    A draining worker gets no new jobs. Its session ends when it holds none, or `at_once`; then its
    jobs go to other workers.
    """

    peer: PeerId | None = None
    at_once: bool = False
    reason: str = ""


@value
class ResourcesDeclared:
    """The resources of a service, to be distributed over its workers. Empty: none any more."""

    service: ServiceName
    names: tuple[str, ...]
    #: How many workers own each resource.
    replicas: int = 1


@value
class ResourcesSettled:
    """A worker confirmed which resources it owns, or cannot confirm."""

    worker: PeerId


@value
class ScheduleDeclared:
    """A schedule was added or changed; without a schedule, it was removed."""

    name: str
    schedule: Schedule | None = None


@value
class ScheduleTicked:
    """A schedule is due. The same tick again is ignored."""

    name: str
    #: Whole seconds since the epoch.
    tick: int
    #: What to submit; None: nothing, because the tick was missed.
    job: JobSubmitted | None = None


@value
class DeadLetterDropped:
    """An operator dropped a dead letter, or retries it as a new job."""

    job: JobId
    again: JobSubmitted | None = None
    principal: Principal = ANONYMOUS


@value
class ResultForgotten:
    """A client or an operator wants the result of a finished job given out no more."""

    job: JobId
    service: ServiceName
    principal: Principal = ANONYMOUS
    #: Whether the ledger has the job, if the memory no longer does.
    is_archived: bool = False


@value
class ServicePaused:
    """An operator paused or resumed a service."""

    service: ServiceName
    is_paused: bool
    reason: str = ""
    principal: Principal = ANONYMOUS


@value
class WorkerDrained:
    """An operator drained the workers of a name, or undrained them."""

    worker: WorkerName
    is_drained: bool
    reason: str = ""
    principal: Principal = ANONYMOUS


@value
class ServiceLimited:
    """The settings or an operator set the limit of a service or one of its tasks."""

    service: ServiceName
    #: Without concurrency and rate: the limit is removed.
    limit: Limit
    task: str = ""
    principal: Principal = ANONYMOUS


@value
class Noted:
    """Something to record that changes no job: bad input, a published event."""

    kind: Kind
    peer: PeerId | None = None
    detail: str = ""
    body: Body | None = None
    job: JobId | None = None
    service: ServiceName | None = None
    principal: Principal = ANONYMOUS
    dialect: str = ""


@value
class EventDenied:
    """A peer may not do `event`: it has no effect, and the peer gets a refusal."""

    event: (
        JobSubmitted
        | JobCancelled
        | InputReceived
        | ResultRequested
        | WorkerJoined
        | CreditGranted
        | BeatReceived
        | ReplyReceived
        | JobForwarded
        | PeerLeft
        | Noted
    )
    fault: Fault
    principal: Principal = ANONYMOUS
    #: Whether the peer's session ends. No if another peer only used its name.
    dismisses: bool = True
    #: Of a flood of refusals only some are recorded.
    is_recorded: bool = True


@value
class TimeAdvanced:
    """Time has passed; timers may be due."""


Event = (
    JobSubmitted
    | JobCancelled
    | InputReceived
    | ResultRequested
    | WorkerJoined
    | CreditGranted
    | BeatReceived
    | ReplyReceived
    | JobForwarded
    | DeliveryFailed
    | PeerLeft
    | DrainRequested
    | LedgerBlocked
    | ResourcesDeclared
    | ResourcesSettled
    | ScheduleDeclared
    | ScheduleTicked
    | DeadLetterDropped
    | ResultForgotten
    | ServicePaused
    | WorkerDrained
    | ServiceLimited
    | Noted
    | EventDenied
    | TimeAdvanced
)
