"""Messages between the web application and the broker's side: frames, within one process.

The first frame is the message as JSON, by its kind; the others are body parts as `codec` writes
them. Addresses are `NAME` of a client, `worker:SESSION` of a worker, and `:watch` of the
application itself.
"""

from typing import Any, Final

import msgspec

from dragoman.dialects.base import Frames, MalformedMessage

WORKER: Final = "worker:"
WATCH: Final = ":watch"


class Message(msgspec.Struct, omit_defaults=True, tag_field="kind"):
    """What all messages have: the parts that follow the first frame."""


# --- what clients say -------------------------------------------------------------------------


class Submit(Message, tag="submit"):
    """A job; parts: the call. `request` names the acknowledgement (`Heard`)."""

    request: str
    job: str
    service: str
    task: str = ""
    target: str = "any"
    timeout: float | None = None
    priority: int = 0
    key: str = ""


class Ask(Message, tag="ask"):
    """How does a job stand?"""

    job: str


class Cancel(Message, tag="cancel"):
    """A job should stop."""

    job: str


class Input(Message, tag="input"):
    """Input for a running job; parts: the input."""

    request: str
    job: str
    worker: str = ""


class Subscribe(Message, tag="subscribe"):
    """Events from a ledger position on; no topics: no more of them."""

    name: str
    topics: tuple[str, ...] = ()
    after: int = -1


# --- what workers say -------------------------------------------------------------------------


class Join(Message, tag="join"):
    """A worker is ready."""

    request: str
    name: str
    services: tuple[str, ...]
    credit: int = 1
    labels: dict[str, str] = {}
    resources: tuple[str, ...] = ()
    #: Jobs it still holds from before; None: it began anew.
    holds: tuple[str, ...] | None = None
    #: Seconds it may be silent while it holds a job; 0: as long as at other times.
    busy_lease: float = 0.0


class Beat(Message, tag="beat"):
    """A worker is alive."""


class Report(Message, tag="report"):
    """What a worker says about a job; parts: progress, piece, question or result."""

    request: str
    job: str
    attempt: int
    about: str
    fault: str = ""
    words: str = ""


class Forward(Message, tag="forward"):
    """A worker passes a job on; parts: the new call."""

    request: str
    job: str
    attempt: int
    service: str
    task: str = ""


class Publish(Message, tag="publish"):
    """A worker publishes an event; parts: the event."""

    request: str
    topic: str


class Leave(Message, tag="leave"):
    """A worker is going."""

    reason: str = ""


# --- what the side says -----------------------------------------------------------------------


class Heard(Message, tag="heard"):
    """What was asked under this name has been handled, and is durable."""

    request: str
    verdict: str = ""


class Told(Message, tag="told"):
    """How a job goes; parts: what its worker said."""

    job: str
    about: str
    service: str = ""
    worker: str = ""
    workers: tuple[str, ...] = ()
    state: str = ""
    fault: str = ""
    words: str = ""
    resources: tuple[str, ...] = ()


class Share(msgspec.Struct, omit_defaults=True):
    """One part of a job; its result is the next `frames` frames."""

    worker: str
    state: str
    attempt: int = 0
    fault: str = ""
    words: str = ""
    frames: int = 0
    resources: tuple[str, ...] = ()


class Standing(Message, tag="standing"):
    """How a job stands: the answer to ask, cancel, and input that was of no use."""

    asked: str
    job: str
    #: Its own id, where it was asked about by another; empty: nobody knows it.
    known_as: str = ""
    state: str = ""
    service: str = ""
    task: str = ""
    target: str = "any"
    client: str = ""
    shares: tuple[Share, ...] = ()
    fault: str = ""
    words: str = ""
    is_waiting_for_input: bool = False
    is_cancelling: bool = False
    submitted_at: float = 0.0
    ended_at: float = 0.0


class Event(Message, tag="event"):
    """One record for a subscription; parts: the event as JSON."""

    name: str
    seq: int
    topic: str
    job: str = ""


class Work(Message, tag="work"):
    """A job for a worker; parts: the call."""

    job: str
    attempt: int
    service: str
    client: str = ""
    #: Seconds it may run; None: without limit.
    timeout: float | None = None
    resources: tuple[str, ...] = ()


class Stop(Message, tag="stop"):
    """A worker should stop a job."""

    job: str
    attempt: int


class Given(Message, tag="given"):
    """A client's input for a worker; parts: the input."""

    job: str


class Dismissed(Message, tag="dismissed"):
    """A worker's session has ended."""

    reason: str = ""


AnyMessage = (
    Submit
    | Ask
    | Cancel
    | Input
    | Subscribe
    | Join
    | Beat
    | Report
    | Forward
    | Publish
    | Leave
    | Heard
    | Told
    | Standing
    | Event
    | Work
    | Stop
    | Given
    | Dismissed
)
_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(AnyMessage)
_ENCODER: Final = msgspec.json.Encoder()


def encode(message: Message, parts: Frames = ()) -> list[bytes]:
    """Write a message."""
    return [_ENCODER.encode(message), *parts]


def decode(frames: Frames) -> tuple[Any, tuple[bytes, ...]]:
    """Read a message and the parts that follow it."""
    try:
        return _DECODER.decode(frames[0]), tuple(frames[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError) as why:
        raise MalformedMessage(f"no message of the http dialect: {why}") from None
