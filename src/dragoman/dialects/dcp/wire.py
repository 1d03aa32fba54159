"""The frames of DCP: a stateless codec between frames and messages.

The text gives the message type one byte; DagBox sends the four bytes of a C++ enum. Both are
supported: `width` is the width of a message's type frame. Frames are as a DEALER sees them: the
first one is empty, and there is no identity before it.

The meaning of messages, and their order, belong to the sides.
"""

from collections.abc import Callable
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.model.value import value

PROTOCOL: Final = b"DGBX\x01"
#: Width of the type frame in the text, and of DagBox on a little-endian machine.
NARROW: Final = 1
WIDE: Final = 4
#: What follows the client in a request or reply: metadata parts, an empty part, data parts.
Tail = tuple[bytes, ...]


@value
class Registration:
    """A worker offers a service. The broker sends the same message back to confirm it."""

    service: bytes
    #: Frames after the service. DagBox ignores them and does not send them back.
    surplus: tuple[bytes, ...] = ()
    width: int = NARROW


@value
class Ping:
    """Heartbeat of a worker."""

    width: int = NARROW


@value
class Pong:
    """Heartbeat of the broker."""

    width: int = NARROW


@value
class DcpRequest:
    """A client or worker requests work. The broker adds the client and forwards it."""

    service: bytes
    #: Empty if the sender omitted it.
    client: bytes
    tail: Tail
    width: int = NARROW


@value
class DcpReply:
    """A worker answers a client, through the broker."""

    client: bytes
    tail: Tail
    width: int = NARROW


@value
class Reconnect:
    """The broker does not know the worker, which must register again."""

    width: int = NARROW
    #: A note with the reason, to our own workers only.
    surplus: Tail = ()


Message = Registration | Ping | Pong | DcpRequest | DcpReply | Reconnect


def metadata_of(tail: Tail) -> tuple[bytes, ...]:
    """Return the metadata parts: all before the first empty part."""
    return tail[: tail.index(b"")]


def data_of(tail: Tail) -> tuple[bytes, ...]:
    """Return the data parts: all after the first empty part, including empty ones."""
    return tail[tail.index(b"") + 1 :]


def decode(frames: Frames) -> Message:
    """Decode one message. Raises `MalformedMessage`."""
    if len(frames) < 3 or frames[0]:
        raise MalformedMessage("a DCP message begins with an empty frame, protocol and type")
    if frames[1] != PROTOCOL:
        raise MalformedMessage(f"not DCP version 1: {frames[1][:16]!r}")
    found = _READERS.get(frames[2])
    if found is None:
        raise MalformedMessage(f"unknown DCP message type {frames[2][:16].hex()}")
    read, width = found
    return read(frames, width)


def _registration(frames: Frames, width: int) -> Message:
    if len(frames) < 4:
        raise MalformedMessage("a registration names no service")
    return Registration(frames[3], tuple(frames[4:]), width)


def _request(frames: Frames, width: int) -> Message:
    if len(frames) < 5:
        raise MalformedMessage("a request ends before its delimiters")
    if not frames[4]:
        return DcpRequest(frames[3], b"", _tail(frames, 5), width)
    return DcpRequest(frames[3], frames[4], _tail_after_client(frames, 5), width)


def _reply(frames: Frames, width: int) -> Message:
    if len(frames) < 4 or not frames[3]:
        raise MalformedMessage("a reply names no client")
    return DcpReply(frames[3], _tail_after_client(frames, 4), width)


def _tail_after_client(frames: Frames, at: int) -> Tail:
    if len(frames) <= at or frames[at]:
        raise MalformedMessage("no empty part follows the client")
    return _tail(frames, at + 1)


def _tail(frames: Frames, at: int) -> Tail:
    tail = tuple(frames[at:])
    if b"" not in tail:
        raise MalformedMessage("no empty part ends the metadata")
    return tail


_SHAPES: Final[dict[int, Callable[[Frames, int], Message]]] = {
    1: _registration,
    2: lambda frames, width: Ping(width),
    3: lambda frames, width: Pong(width),
    4: _request,
    5: _reply,
    6: lambda frames, width: Reconnect(width, tuple(frames[3:])),
}
_READERS: Final = {
    code.to_bytes(width, "little"): (read, width)
    for code, read in _SHAPES.items()
    for width in (NARROW, WIDE)
}


def _header(code: int) -> dict[int, tuple[bytes, ...]]:
    return {width: (b"", PROTOCOL, code.to_bytes(width, "little")) for width in (NARROW, WIDE)}


_REGISTRATION: Final = _header(1)
_PING: Final = _header(2)
_PONG: Final = _header(3)
_REQUEST: Final = _header(4)
_REPLY: Final = _header(5)
_RECONNECT: Final = _header(6)


def encode(message: Message) -> Frames:
    """Encode one message, with the type frame in the message's width."""
    return _WRITERS[type(message)](message)


def _write_registration(m: Registration) -> Frames:
    return (*_REGISTRATION[m.width], m.service, *m.surplus)


def _write_request(m: DcpRequest) -> Frames:
    if not m.client:
        return (*_REQUEST[m.width], m.service, b"", *m.tail)
    return (*_REQUEST[m.width], m.service, m.client, b"", *m.tail)


def _write_reply(m: DcpReply) -> Frames:
    return (*_REPLY[m.width], m.client, b"", *m.tail)


_WRITERS: Final[dict[type, Callable[..., Frames]]] = {
    Registration: _write_registration,
    Ping: lambda m: _PING[m.width],
    Pong: lambda m: _PONG[m.width],
    DcpRequest: _write_request,
    DcpReply: _write_reply,
    Reconnect: lambda m: (*_RECONNECT[m.width], *m.surplus),
}
