"""Messages between the broker and its built-in services, as frames within one process."""

from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.model.value import value

JOIN: Final = b"join"
WORK: Final = b"work"
CANCEL: Final = b"cancel"
INPUT: Final = b"input"
REPLY: Final = b"reply"
LEAVE: Final = b"leave"
ENDED: Final = b"ended"
_KINDS: Final = frozenset({b"accepted", b"progress", b"chunk", b"final"})


@value
class LocalJoin:
    """A service starts. `credit` is how many jobs it takes at a time."""

    services: tuple[str, ...]
    credit: int


@value
class LocalWork:
    """A job for a service."""

    job: str
    attempt: int
    client: str
    body: bytes


@value
class LocalCancel:
    """A job should stop."""

    job: str


@value
class LocalInput:
    """Input of the client to its running job."""

    job: str
    body: bytes


@value
class LocalReply:
    """A service reports on a job: `accepted`, `progress`, `chunk` or `final`."""

    job: str
    attempt: int
    kind: str
    body: bytes


@value
class LocalLeave:
    """A service stops."""


@value
class LocalJobEnded:
    """A job ended that the broker itself submitted. `fault` is a fault code, or empty."""

    job: str
    body: bytes
    fault: str = ""
    message: str = ""


Message = LocalJobEnded | LocalJoin | LocalWork | LocalCancel | LocalInput | LocalReply | LocalLeave


def encode(message: Message) -> list[bytes]:
    """Encode a message."""
    if isinstance(message, LocalJoin):
        return [JOIN, str(message.credit).encode(), *(s.encode() for s in message.services)]
    if isinstance(message, LocalWork):
        head = [WORK, message.job.encode(), str(message.attempt).encode()]
        return [*head, message.client.encode(), message.body]
    if isinstance(message, LocalReply):
        head = [REPLY, message.job.encode(), str(message.attempt).encode()]
        return [*head, message.kind.encode(), message.body]
    if isinstance(message, LocalJobEnded):
        return [ENDED, *(t.encode() for t in (message.job, message.fault, message.message)),
                message.body]  # fmt: skip
    if isinstance(message, LocalInput):
        return [INPUT, message.job.encode(), message.body]
    return [CANCEL, message.job.encode()] if isinstance(message, LocalCancel) else [LEAVE]


def decode(frames: Frames) -> Message:
    """Decode a message. Raises `MalformedMessage`."""
    try:
        return _decode(frames)
    except (ValueError, IndexError) as error:
        raise MalformedMessage(f"not a message of the local dialect: {error}") from None


def _decode(frames: Frames) -> Message:
    command = frames[0]
    if command == JOIN:
        return LocalJoin(tuple(f.decode() for f in frames[2:]), int(frames[1]))
    if command == WORK:
        return LocalWork(frames[1].decode(), int(frames[2]), frames[3].decode(), frames[4])
    if command == REPLY and frames[3] in _KINDS:
        return LocalReply(frames[1].decode(), int(frames[2]), frames[3].decode(), frames[4])
    if command == ENDED:
        job, fault, text = (f.decode() for f in frames[1:4])
        return LocalJobEnded(job, frames[4], fault, text)
    if command == INPUT:
        return LocalInput(frames[1].decode(), frames[2])
    if command == CANCEL:
        return LocalCancel(frames[1].decode())
    if command == LEAVE:
        return LocalLeave()
    raise ValueError(f"unknown command {command[:16]!r}")
