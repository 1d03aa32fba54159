"""What happened: everything that can make the broker change its mind.

Dialects turn what peers say into these; the server loop adds the passing of time. All policy
comes in as fields, so the core never asks which dialect an event came from.
"""

from collections.abc import Mapping
from enum import StrEnum

from dragoman.model.body import EMPTY, Body
from dragoman.model.capacity import Capacity
from dragoman.model.fault import Fault
from dragoman.model.names import ANONYMOUS, JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import ANY, Target
from dragoman.model.terms import Terms
from dragoman.model.value import field, value


class ReplyKind(StrEnum):
    """What a reply is about. Workers send ACCEPTED to FINAL; clients receive all of them."""

    QUEUED = "queued"  #: the broker holds the job (durably, if strict)
    DISPATCHED = "dispatched"  #: it is with these workers
    ACCEPTED = "accepted"  #: the worker confirmed that it has it
    PROGRESS = "progress"
    CHUNK = "chunk"  #: a piece of a stream, in order
    INPUT_ASKED = "input_asked"  #: the worker waits for the client's answer
    PART = "part"  #: the result of one worker, more will follow
    FINAL = "final"  #: the job ended; carries the result when it had one part


@value
class JobSubmitted:
    """A client asked for work. The same job id or key again is the same job."""

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
    """A client wants a job to stop. It is answered with the job's status."""

    job: JobId
    client: PeerId
    principal: Principal = ANONYMOUS


@value
class InputReceived:
    """A client sent input to a running job; to one worker of it, or to all that run it."""

    job: JobId
    client: PeerId
    body: Body
    worker: WorkerName | None = None
    principal: Principal = ANONYMOUS


@value
class ResultRequested:
    """A client, not necessarily the submitter, asked what became of a job."""

    job: JobId
    client: PeerId
    principal: Principal = ANONYMOUS


@value
class WorkerJoined:
    """A worker registered, or said again what it offers (a resync keeps its assignments)."""

    worker: PeerId
    name: WorkerName
    services: tuple[ServiceName, ...]
    #: How many jobs it may be given; None: no limit. Each dispatch takes one.
    credit: int | None = None
    #: Whether a finished job gives its credit back. If not, only `CreditGranted` does.
    credit_returns: bool = False
    #: Beats are expected, and sent, this often; None: this worker does not beat.
    beat_every: float | None = None
    #: So many silent intervals make it lost.
    missed_allowed: int = 6
    #: The same while it holds a job, for peers that are silent while they compute.
    missed_allowed_busy: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Capacity | None = None
    #: Resources it announces as its own.
    resources: tuple[str, ...] = ()
    #: Whether it can be told to stop a job, and will say that it did.
    can_cancel: bool = False
    #: The jobs it says it still holds; None: it cannot say, so all its assignments stand.
    holds: frozenset[JobId] | None = None
    principal: Principal = ANONYMOUS
    dialect: str = ""
    #: A service of the broker's own: asked for by its name only, never meant by the service `all`.
    is_builtin: bool = False
    #: How long its work waits for it after a restart of the broker; 0: as long as anybody's.
    rejoins_within: float = 0.0


@value
class CreditGranted:
    """A worker is ready for `credit` more jobs."""

    worker: PeerId
    credit: int = 1


@value
class BeatReceived:
    """A worker is alive. With `capacity`, that is what it has free beside the jobs it holds."""

    worker: PeerId
    capacity: Capacity | None = None


@value
class ReplyReceived:
    """A worker said something about a job it holds.

    FINAL without a fault is success. FINAL with `handed_back` returns the job unrun, with
    `cancelled` confirms a cancel, with any other fault the task failed.
    """

    worker: PeerId
    job: JobId
    kind: ReplyKind
    body: Body = EMPTY
    fault: Fault | None = None
    #: Which attempt it answers, where the wire carries that; None: the current one.
    attempt: int | None = None


@value
class JobForwarded:
    """A worker passed its job on to another service; the client stays the same."""

    worker: PeerId
    job: JobId
    service: ServiceName
    body: Body
    target: Target = ANY
    task: str = ""
    #: Which attempt it passes on, where the wire carries that; None: the current one.
    attempt: int | None = None


@value
class DeliveryFailed:
    """What the broker sent never left: the peer's queue is full, or the peer is gone."""

    peer: PeerId
    is_gone: bool
    #: The work that was not delivered, if it was work.
    job: JobId | None = None
    attempt: int = 0
    #: What could not be dressed for that peer; not a transport trouble, so do not try again.
    fault: Fault | None = None


@value
class PeerLeft:
    """A peer said good-bye or its connection ended."""

    peer: PeerId
    reason: str
    #: How long its assignments wait for it to come back before they go to others.
    grace: float = 0.0


@value
class DrainRequested:
    """Give no new work to this worker; without a peer, to nobody: the broker is going down.

    A worker is let go when it has nothing left to do, or `at_once`: what it holds goes to others.
    """

    peer: PeerId | None = None
    at_once: bool = False
    reason: str = ""


@value
class ResourcesDeclared:
    """The resources of a service, to be distributed over its workers. None: nothing any more."""

    service: ServiceName
    names: tuple[str, ...]
    #: How many workers own each.
    replicas: int = 1


@value
class ResourcesSettled:
    """A worker knows what it owns now, or cannot be told."""

    worker: PeerId


@value
class Noted:
    """Something to put on record that changes no job: bad input, a published event."""

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
    """Somebody asked for what they may not have: `event` did not happen, and they are told so."""

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
    #: Whether the peer's own session ends with it. Not if somebody only spoke in its name.
    dismisses: bool = True
    #: A flood of refusals goes on record in part.
    is_recorded: bool = True


@value
class TimeAdvanced:
    """Nothing happened, but it is later."""


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
    | ResourcesDeclared
    | ResourcesSettled
    | Noted
    | EventDenied
    | TimeAdvanced
)
