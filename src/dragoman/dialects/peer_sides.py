"""What the SDK and the client and worker sides say to each other, in model words only.

The SDK never sees broker events, and no side ever sees a socket: a side turns these into frames and
frames into these.
"""

from typing import Any, Protocol

from dragoman.dialects.base import Frames
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ANY, Target
from dragoman.model.value import value


@value
class SendNow:
    """Frames the side wants sent at once, by itself (an answer to a poll, say)."""

    frames: Frames


# --- client ---------------------------------------------------------------------------------


@value
class Submission:
    """A request as the SDK hands it to a client side."""

    job: JobId
    service: str
    call: Call
    target: Target = ANY
    priority: int = 0
    key: str = ""


@value
class Queued:
    """The broker holds the job."""

    job: JobId


@value
class Dispatched:
    """The job is with these workers."""

    job: JobId
    workers: tuple[WorkerName, ...] = ()


@value
class Progress:
    """A worker reported on its way. `event` is its report, in JSON types."""

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
    """A worker waits for an answer to `question`; answer with `give_input(job, request, ...)`."""

    job: JobId
    request: str
    question: Any
    worker: str = ""


@value
class Finished:
    """The job ended: an answer per worker that had a part of it, or the fault that ended it."""

    job: JobId
    answers: tuple[Answer, ...] = ()
    fault: Fault | None = None
    state: JobState | None = None


@value
class StatusNotice:
    """How the job stands, asked for with `ask` or `cancel`; not necessarily final."""

    job: JobId
    state: str
    detail: str = ""


@value
class Published:
    """An event of the fabric that this client subscribed to."""

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
    """The dialect has no way to say this. The message names the dialect and what to do instead."""


class ClientSide(Protocol):
    """A client's end of a dialect. Each method returns the messages to send, in order.

    `receive` ignores what it cannot read (a client must survive any broker). What a dialect lacks
    raises `Unsupported`.
    """

    def hello(self) -> list[Frames]:
        """Say first, on every new connection."""
        ...

    def submit(self, order: Submission) -> list[Frames]:
        """Ask for work; the same order again (same job id) must be safe."""
        ...

    def ask(self, job: JobId) -> list[Frames]:
        """Ask for the result of a job."""
        ...

    def cancel(self, job: JobId) -> list[Frames]:
        """Ask for a job to stop."""
        ...

    def give_input(self, job: JobId, request: str, answer: Any, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        ...

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Ask for events, from the ledger position `after` on."""
        ...

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Take one message in."""
        ...


# --- worker ---------------------------------------------------------------------------------


@value
class Assigned:
    """A job to run. `ticket` names it in every later word between SDK and side."""

    ticket: str
    job: JobId
    call: Call
    service: str = ""
    client: str = ""
    #: How long it may run, in seconds; None: not said.
    timeout: float | None = None
    #: The resources that this worker is to serve with it, where the job is for resources.
    resources: tuple[str, ...] = ()


@value
class Stop:
    """The broker wants this job stopped."""

    ticket: str


@value
class InputGiven:
    """The client answered the question `request` (empty: unasked input)."""

    ticket: str
    request: str
    answer: Any


@value
class Alive:
    """The broker is there."""


@value
class Dismissed:
    """The broker does not know this worker (any more): join again."""

    reason: str = ""


WorkerNotice = Assigned | Stop | InputGiven | Alive | Dismissed | SendNow


class WorkerSide(Protocol):
    """A worker's end of a dialect. Each method returns the messages to send, in order."""

    @property
    def beat_every(self) -> float:
        """How often to call `beat`, in seconds."""
        ...

    @property
    def hold(self) -> float | None:
        """After so many silent seconds the broker is lost; None: this dialect cannot tell."""
        ...

    def join(self) -> list[Frames]:
        """Register, on every new connection and after a dismissal."""
        ...

    def receive(self, frames: Frames) -> list[WorkerNotice]:
        """Take one message in; what cannot be read is ignored."""
        ...

    def take(self, ticket: str) -> list[Frames]:
        """Confirm that the job has arrived and is being run."""
        ...

    def progress(self, ticket: str, event: Any) -> list[Frames]:
        """Report on the way."""
        ...

    def chunk(self, ticket: str, data: bytes) -> list[Frames]:
        """Send a piece of a stream."""
        ...

    def ask_input(self, ticket: str, request: str, question: Any) -> list[Frames]:
        """Ask the client something."""
        ...

    def finish(self, ticket: str, answer: Answer) -> list[Frames]:
        """Send the result."""
        ...

    def hand_back(self, ticket: str) -> list[Frames]:
        """Return a job unrun."""
        ...

    def forward(self, ticket: str, service: str, call: Call) -> list[Frames]:
        """Pass the job on to another service."""
        ...

    def publish(self, topic: str, event: Any) -> list[Frames]:
        """Publish an event to whoever subscribed."""
        ...

    def beat(self) -> list[Frames]:
        """Say "I am alive"."""
        ...

    def leave(self) -> list[Frames]:
        """Say good-bye."""
        ...
