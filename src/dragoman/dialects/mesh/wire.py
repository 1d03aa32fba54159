"""Messages between two brokers: five frames, then the parts of a body.

The frames are `MESH1`, the name of the sending broker, the session, the command with its fields as
MessagePack, and the dialect of the body. The body keeps its own form, so it passes unchanged.
"""

import re
from typing import Annotated, Any, Final

import msgspec

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.model.body import EMPTY, Body
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.retry import Retry
from dragoman.model.terms import BALANCES, Terms

MAGIC: Final = b"MESH1"
_SHORT: Final = msgspec.Meta(max_length=64, pattern=r"^[!-~]*\Z")
_HEAD: Final = 5
_PLAIN: Final = r"^[^\x00-\x1f\x7f]*\Z"
#: Words of records are lines: none of them may hold a line break.
Text = Annotated[str, msgspec.Meta(max_length=4096, pattern=_PLAIN)]
Job = Annotated[str, msgspec.Meta(min_length=1, max_length=4096, pattern=_PLAIN)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Service = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=_PLAIN)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
#: Integers that every column of the ledger can hold.
Priority = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
#: The brokers that a job or an offer has passed.
Path = Annotated[list[Name], msgspec.Meta(max_length=64)]


class MeshMessage(msgspec.Struct, array_like=True, frozen=True):
    """One command, without its body."""


class Hello(MeshMessage, tag="hello", frozen=True):
    """The broker that connects begins a session."""


class Welcome(MeshMessage, tag="welcome", frozen=True):
    """The other broker accepts the session."""


class Strange(MeshMessage, tag="strange", frozen=True):
    """The receiver's session is not known here: it should begin a new one."""


class Beat(MeshMessage, tag="beat", frozen=True):
    """The sender is alive."""


class Offer(msgspec.Struct, array_like=True, frozen=True):
    """One service that the sender offers."""

    service: Service
    #: How many jobs its workers run at a time.
    slots: Count
    #: The brokers that a job passes, the sender first.
    route: Path


class Offers(MeshMessage, tag="offers", frozen=True):
    """Everything that the sender offers; what is not in the list is not offered."""

    offers: Annotated[list[Offer], msgspec.Meta(max_length=10_000)]


class Holds(MeshMessage, tag="holds", frozen=True):
    """The open jobs that the sender has from the receiver."""

    jobs: Annotated[list[Job], msgspec.Meta(max_length=1_000_000)]


class WorkTerms(msgspec.Struct, array_like=True, frozen=True):
    """The terms of a job; durations are what is left of them."""

    timeout: Seconds | None
    patience: Seconds | None
    queue_timeout: Seconds | None
    run_timeout: Seconds | None
    cancel_grace: Seconds
    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    backoff: Seconds
    priority: Priority
    balance: Text
    strict: bool
    memoize: bool
    needs: tuple[Seconds, Amount, Amount, Amount, Amount]
    #: None: the call and the settings say nothing of retries.
    retry: tuple[Count, Seconds, float, Seconds, float, list[Text]] | None
    origin: Text
    #: The brokers that the job has passed, the sender last.
    path: Path


class Work(MeshMessage, tag="work", frozen=True):
    """A job for the receiver; the body is its request."""

    job: Job
    service: Service
    task: Text
    terms: WorkTerms


class Cancel(MeshMessage, tag="cancel", frozen=True):
    """A job that the receiver has should stop."""

    job: Job


class Input(MeshMessage, tag="input", frozen=True):
    """Input of the client for a job that the receiver has; it is the body."""

    job: Job


class Poll(MeshMessage, tag="poll", frozen=True):
    """The sender asks for the result of a job that the receiver should have."""

    job: Job
    #: The attempt that was sent; the answer that there is no such job repeats it.
    attempt: Count


class Reply(MeshMessage, tag="reply", frozen=True):
    """What a job reports; the body is the report or the result."""

    job: Job
    #: A value of `core.events.ReplyKind`.
    kind: Text
    #: A value of `FaultCode`, or empty.
    fault: Text = ""
    message: str = ""
    #: The attempt of the poll that it answers; 0: it is about the job, whatever the attempt.
    attempt: Count = 0


class Ask(MeshMessage, tag="ask", frozen=True):
    """The sender asks why a job is in its state."""

    job: Job


class Told(MeshMessage, tag="told", frozen=True):
    """The answer to `Ask`: a reason and its explanation."""

    job: Job
    reason: Text
    words: str


_ANY: Final = (Hello | Welcome | Strange | Beat | Offers | Holds | Work | Cancel | Input | Poll
               | Reply | Ask | Told)  # fmt: skip
_DECODER: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(_ANY)
_ENCODER: Final = msgspec.msgpack.Encoder()


class MeshEnvelope(msgspec.Struct, frozen=True):
    """A decoded message: who sent it in which session, the command and the body."""

    sender: str
    session: str
    message: Any
    body: Body = EMPTY


def encode(sender: str, session: str, message: MeshMessage, body: Body = EMPTY) -> list[bytes]:
    """Encode a message."""
    head = [MAGIC, sender.encode(), session.encode(), _ENCODER.encode(message)]
    return [*head, body.dialect.encode(), *body.parts]


def is_word(text: str, longest: int = 4096) -> bool:
    """Tell whether a text may cross: it is not long, and has no line breaks."""
    return len(text) <= longest and re.match(_PLAIN, text) is not None


def sender_of(frames: Frames) -> str:
    """Return the name of the sending broker; empty if the message cannot be read."""
    is_ours = len(frames) >= _HEAD and frames[0] == MAGIC
    return frames[1].decode(errors="replace") if is_ours else ""


def decode(frames: Frames) -> MeshEnvelope:
    """Decode a message. Raises `MalformedMessage`."""
    if len(frames) < _HEAD or frames[0] != MAGIC:
        raise MalformedMessage("not a message between brokers")
    try:
        sender, session, dialect = (frames[at].decode() for at in (1, 2, 4))
        message = _DECODER.decode(frames[3])
        msgspec.convert(sender, Name)
        msgspec.convert([session, dialect], list[Annotated[str, _SHORT]])
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise MalformedMessage(f"not a message between brokers: {error}") from None
    return MeshEnvelope(sender, session, message, Body(dialect, tuple(frames[_HEAD:])))


def write_terms(terms: Terms, timeout: float | None, path: tuple[str, ...]) -> WorkTerms:
    """Write the terms of a job for the next broker."""
    needs, retry = terms.needs, terms.retry
    return WorkTerms(
        timeout=timeout,
        patience=terms.patience,
        queue_timeout=terms.queue_timeout,
        run_timeout=terms.run_timeout,
        cancel_grace=terms.cancel_grace,
        max_attempts=min(terms.max_attempts, 1000),
        backoff=terms.backoff,
        priority=max(-(2**31), min(terms.priority, 2**31)),
        balance=terms.balance,
        strict=terms.strict,
        memoize=terms.memoize,
        needs=(needs.cpu, needs.memory, needs.disk, needs.gpu, needs.slots),
        retry=None if retry is None else (retry.times, retry.backoff, retry.factor, retry.longest,
                                          retry.jitter, list(retry.on)),
        origin=terms.origin,
        path=list(path),
    )  # fmt: skip


def read_terms(given: WorkTerms) -> Terms:
    """Read the terms of a job. Raises `MalformedMessage`."""
    if given.balance not in BALANCES:
        raise MalformedMessage(f"unknown balance {given.balance[:40]!r}")
    needs, retry = Capacity(*given.needs), given.retry
    try:
        policy = retry and Retry(*retry[:5], tuple(retry[5]))
    except ValueError as error:
        raise MalformedMessage(str(error)) from None
    return Terms(
        patience=given.patience,
        queue_timeout=given.queue_timeout,
        run_timeout=given.run_timeout,
        timeout=given.timeout,
        max_attempts=given.max_attempts,
        backoff=given.backoff,
        priority=given.priority,
        balance=given.balance,
        needs=NOTHING if needs == NOTHING else needs,
        strict=given.strict,
        cancel_grace=given.cancel_grace,
        memoize=given.memoize,
        retry=policy,
        origin=given.origin,
        path=tuple(given.path),
    )
