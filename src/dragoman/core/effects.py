"""What to do about it: the broker's orders to the server loop.

`Append`s of a batch go to the ledger first; a send whose `is_strict` is set may leave the process
only when every record of its batch is durable.
"""

from enum import StrEnum

from dragoman.core.events import ReplyKind
from dragoman.model.body import EMPTY, Body
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Record
from dragoman.model.value import value


@value
class Append:
    """Put a record in the ledger, with its body beside it."""

    record: Record
    body: Body | None = None


@value
class SendWork:
    """Give a job to a worker."""

    worker: PeerId
    job: JobId
    attempt: int
    service: ServiceName
    client: PeerId
    body: Body
    task: str = ""
    #: When the broker stops waiting for this attempt (seconds since the epoch); None: never.
    run_until: float | None = None
    #: The `dispatched` record's position in the ledger.
    seq: int = 0
    #: What it takes of the worker's capacity, for workers that account for it themselves.
    needs: Capacity = NOTHING
    #: The job's target as text, for dialects that tell fan-out from single work on the wire. Of a
    #: job for resources, those that this worker is to serve.
    target: str = "any"
    is_strict: bool = True


@value
class SendInput:
    """Give a client's input to a worker that runs its job."""

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
    #: The position in the ledger of the record that caused it.
    seq: int = 0
    is_strict: bool = True


@value
class SendReply:
    """Tell the job's client how it goes."""

    client: PeerId
    job: JobId
    kind: ReplyKind
    service: ServiceName
    #: The worker it comes from; empty when it comes from the broker itself.
    worker: WorkerName = WorkerName("")
    body: Body = EMPTY
    fault: Fault | None = None
    #: DISPATCHED: every worker that has or will have a part of it.
    workers: tuple[WorkerName, ...] = ()
    #: FINAL: the state the job ended in.
    state: JobState | None = None
    #: An answer given again: the loop reads its body from the ledger, at this position.
    seq: int = 0
    is_strict: bool = True
    #: The resources that worker's part of the job is for, if it is for any.
    resources: tuple[str, ...] = ()


@value
class SendPoll:
    """Ask a worker that came back what became of a job it was given before."""

    worker: PeerId
    job: JobId
    attempt: int
    client: PeerId
    is_strict: bool = False


class RequestKind(StrEnum):
    """What a status answers."""

    RESULT = "result"
    CANCEL = "cancel"
    INPUT = "input"


@value
class PartStatus:
    """How one assignment stands. The body of a result is in the ledger under `seq`."""

    worker: WorkerName
    state: JobState
    attempt: int = 0
    fault: Fault | None = None
    seq: int = 0
    body: Body | None = None
    resources: tuple[str, ...] = ()


@value
class JobStatus:
    """How a job stands."""

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
    """Answer a question about a job; `status` is None when the core does not know the job.

    The loop looks an unknown job up in the ledger, and fills the bodies of results in, before
    the dialect renders it.
    """

    client: PeerId
    job: JobId
    asked: RequestKind
    status: JobStatus | None
    fault: Fault | None = None
    is_strict: bool = True


@value
class SendBeat:
    """Tell a worker that the broker is alive."""

    worker: PeerId


@value
class Dismiss:
    """Tell a peer that it is not (any more) known here, so that it starts anew."""

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
