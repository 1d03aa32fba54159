"""Effects: what the broker asks the server loop to do.

The loop writes the `Append`s of a batch first. A send with `is_strict` leaves the process only when
every record of its batch is durable.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from dragoman.core.events import ReplyKind
from dragoman.model.body import EMPTY, Body
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Record
from dragoman.model.terms import Terms
from dragoman.model.value import field, value


@value
class Append:
    """Write a record to the ledger, with its body."""

    record: Record
    body: Body | None = None


@value
class SendWork:
    """Send a job to a worker."""

    worker: PeerId
    job: JobId
    attempt: int
    service: ServiceName
    client: PeerId
    body: Body
    task: str = ""
    #: When the broker stops waiting for this attempt (seconds since the epoch); None: never.
    run_until: float | None = None
    #: The sequence number of the `dispatched` record.
    seq: int = 0
    #: The capacity the job takes, for workers that account for it themselves.
    needs: Capacity = NOTHING
    #: The target as text, for dialects whose wire format marks fan-out. For a job on resources:
    #: the resources that this worker serves.
    target: str = "any"
    is_strict: bool = True
    #: Where the ledger has the body, if it is not in memory; 0: `body` is the body.
    body_seq: int = 0
    #: What a worker that is a broker needs to dispatch the job; None for other workers.
    terms: Terms | None = None


@value
class SendInput:
    """Send a client's input to a worker that runs its job."""

    worker: PeerId
    job: JobId
    client: PeerId
    body: Body
    is_strict: bool = True


@value
class SendCancel:
    """Tell a worker to stop a job."""

    worker: PeerId
    job: JobId
    attempt: int
    client: PeerId
    #: The sequence number of the record that caused it.
    seq: int = 0
    is_strict: bool = True


@value
class SendReply:
    """Send the job's client an acknowledgement, a progress report or a result."""

    client: PeerId
    job: JobId
    kind: ReplyKind
    service: ServiceName
    #: The worker it comes from; empty if it comes from the broker.
    worker: WorkerName = WorkerName("")
    body: Body = EMPTY
    fault: Fault | None = None
    #: DISPATCHED: every worker that has or gets a part of the job.
    workers: tuple[WorkerName, ...] = ()
    #: FINAL: the state the job ended in.
    state: JobState | None = None
    #: If set, the loop reads the body of a repeated answer from this record.
    seq: int = 0
    is_strict: bool = True
    #: The resources that the worker's part is for, if any.
    resources: tuple[str, ...] = ()


@value
class SendPoll:
    """Ask a worker that came back for the status of a job it holds."""

    worker: PeerId
    job: JobId
    attempt: int
    client: PeerId
    is_strict: bool = False


class RequestKind(StrEnum):
    """The request that a status answers."""

    RESULT = "result"
    CANCEL = "cancel"
    INPUT = "input"


@value
class PartStatus:
    """The status of one part. The ledger has the body of its result under `seq`."""

    worker: WorkerName
    state: JobState
    attempt: int = 0
    fault: Fault | None = None
    seq: int = 0
    body: Body | None = None
    resources: tuple[str, ...] = ()


@value
class JobStatus:
    """The status of a job."""

    job: JobId
    state: JobState
    service: ServiceName
    client: PeerId
    parts: tuple[PartStatus, ...] = ()
    fault: Fault | None = None
    is_waiting_for_input: bool = False
    is_cancelling: bool = False
    submitted_at: float = 0.0
    ended_at: float = 0.0
    task: str = ""
    target: str = "any"


@value
class SendStatus:
    """Answer a request about a job. `status` is None if the core does not know the job.

    Before the dialect renders it, the loop looks up an unknown job in the ledger and fills in the
    bodies of results.
    """

    client: PeerId
    job: JobId
    asked: RequestKind
    status: JobStatus | None
    fault: Fault | None = None
    is_strict: bool = True


@value
class SendBeat:
    """Send a heartbeat to a worker."""

    worker: PeerId


@value
class Dismiss:
    """Tell a peer that it has no session here, so that it registers again."""

    peer: PeerId
    reason: str


Effect = (
    Append
    | SendWork
    | SendInput
    | SendCancel
    | SendPoll
    | SendReply
    | SendStatus
    | SendBeat
    | Dismiss
)


# --- after a restart: what a side learns from the fold of the records -----------------------


@value
class RecoveredRequest:
    """A request that an earlier process took in."""

    job: JobId
    client: PeerId
    #: The position of its record and body.
    seq: int
    terms: Terms
    #: When it succeeded; None: it is open.
    answered_at: float | None = None


@value
class RecoveredWork:
    """Work that an earlier process sent to a worker, and that has no result."""

    #: As it was sent; the body is in the ledger.
    work: SendWork
    at: float
    #: The position of the worker's confirmation; 0: there is none.
    accept_seq: int = 0
    #: The position of the worker's result before this work; 0: there is none.
    last_result_seq: int = 0
    #: The number of the worker's request that this work answered; 0: not known.
    answers: int = 0


@value
class LinkPast:
    """What the records say about one link's peers and jobs."""

    last_seq: int
    requests: Sequence[RecoveredRequest] = ()
    work: Sequence[RecoveredWork] = ()
    #: Peer -> the position of its last recorded state.
    peer_states: Mapping[PeerId, int] = field(default_factory=dict)
