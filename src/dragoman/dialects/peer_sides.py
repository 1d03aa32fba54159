"""The interface between the SDK and the client and worker sides of a dialect.

A side converts these objects to frames and frames to these objects. The SDK sees no broker events,
and a side sees no socket.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dragoman.dialects.base import Frames
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ANY, Target
from dragoman.model.value import field, value


@value
class SendNow:
    """Frames that the side itself needs sent, for example the answer to a poll."""

    frames: Frames


# --- client ---------------------------------------------------------------------------------


@value
class Submission:
    """A request that the SDK submits through a client side."""

    job: JobId
    service: str
    call: Call
    target: Target = ANY
    priority: int = 0
    key: str = ""
    #: Further options, as `model.job_options` reads them.
    options: Mapping[str, Any] = field(default_factory=dict)


@value
class Queued:
    """The broker holds the job, and it waits for a worker."""

    job: JobId


@value
class Dispatched:
    """The job is with these workers."""

    job: JobId
    workers: tuple[WorkerName, ...] = ()


@value
class Progress:
    """A worker reported progress. `event` is its report, in JSON types."""

    job: JobId
    event: Any
    worker: str = ""


@value
class Chunk:
    """A piece of a stream, in order."""

    job: JobId
    data: bytes
    worker: str = ""


@value
class InputAsked:
    """A worker asked `question`. Answer it with `give_input(job, request, ...)`."""

    job: JobId
    request: str
    question: object
    worker: str = ""


@value
class Finished:
    """The job ended, with one answer for each part, or with the fault that ended it."""

    job: JobId
    answers: tuple[Answer, ...] = ()
    fault: Fault | None = None
    state: JobState | None = None


@value
class StatusNotice:
    """The job's state, in reply to `ask` or `cancel`; not necessarily final."""

    job: JobId
    state: str
    detail: str = ""
    #: The code of the fault, if the broker refused the question.
    code: str = ""


@value
class Published:
    """An event of a topic that this client subscribed to."""

    seq: int
    topic: str
    event: Any


ClientNotice = (
    Queued
    | Dispatched
    | Progress
    | Chunk
    | InputAsked
    | Finished
    | StatusNotice
    | Published
    | SendNow
)


class Unsupported(Exception):
    """The dialect has no message for this. The text says what to do instead."""


class ClientSide(Protocol):
    """A client's end of a dialect. Each method returns the messages to send, in order.

    `receive` ignores unreadable messages: a client must survive any broker. A method raises
    `Unsupported` if the dialect has no message for it.
    """

    def hello(self) -> list[Frames]:
        """Return the first messages of a new connection."""
        ...

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job. A repeated submission with the same job id must be safe."""
        ...

    def ask(self, job: JobId) -> list[Frames]:
        """Request the result of a job."""
        ...

    def cancel(self, job: JobId) -> list[Frames]:
        """Request that a job stops."""
        ...

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        ...

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Subscribe to events after the ledger position `after`."""
        ...

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Decode one message."""
        ...


# --- worker ---------------------------------------------------------------------------------


@value
class Assigned:
    """A job to run. `ticket` identifies it between the SDK and the side."""

    ticket: str
    job: JobId
    call: Call
    service: str = ""
    client: str = ""
    #: How long it may run, in seconds; None: unknown.
    timeout: float | None = None
    #: The resources that this worker serves, if the job targets resources.
    resources: tuple[str, ...] = ()


@value
class Stop:
    """The broker requests that this job stops."""

    ticket: str


@value
class InputGiven:
    """The client answered the question `request` (empty: unsolicited input)."""

    ticket: str
    request: str
    answer: object


@value
class Alive:
    """The broker is alive."""


@value
class Dismissed:
    """The broker does not know this worker, or no longer: join again.

    A broker that refuses the registration says so in `reason`, where the dialect has a place.
    """

    reason: str = ""


WorkerNotice = Assigned | Stop | InputGiven | Alive | Dismissed | SendNow


class WorkerSide(Protocol):
    """A worker's end of a dialect. Each method returns the messages to send, in order."""

    @property
    def beat_every(self) -> float:
        """Return the seconds between two calls of `beat`."""
        ...

    @property
    def hold(self) -> float | None:
        """Return how long the broker may be silent, in seconds; None: silence means nothing."""
        ...

    @property
    def is_joined(self) -> bool:
        """Return whether the broker has confirmed the last `join`."""
        ...

    def join(self) -> list[Frames]:
        """Register. Called on every new connection and after `Dismissed`."""
        ...

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Decode one message. Unreadable messages are ignored."""
        ...

    def take(self, ticket: str) -> list[Frames]:
        """Confirm that the job has arrived and runs."""
        ...

    def progress(self, ticket: str, event: object) -> list[Frames]:
        """Report progress."""
        ...

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream."""
        ...

    def ask_input(self, ticket: str, request: str, question: object) -> list[Frames]:
        """Ask the client a question."""
        ...

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        ...

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return the job to the broker without running it."""
        ...

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Forward the job to another service."""
        ...

    def publish(self, topic: str, event: object) -> list[Frames]:
        """Publish an event to its subscribers."""
        ...

    def beat(self) -> list[Frames]:
        """Send a heartbeat."""
        ...

    def leave(self) -> list[Frames]:
        """Unregister."""
        ...


@runtime_checkable
class TakesOutput(Protocol):
    """A worker side whose dialect transmits what a task prints."""

    def output(self, ticket: str, text: str, is_error: bool) -> list[Frames]:
        """Send text that a task printed."""
        ...
