"""The frames of NFP: a stateless codec between frames and messages.

There are two variants. NorFab's peers write a command as four ASCII characters (`0x04`); the text
itself means one byte (04). `is_binary` is the variant of a message. Frames are as a DEALER sees
them: the first one is empty, and there is no identity before it.

The meaning of messages, and their order, belong to the sides.
"""

from collections.abc import Callable
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.model.value import value

CLIENT: Final = b"NFPC01"
WORKER: Final = b"NFPW01"
BROKER: Final = b"NFPB01"

OPEN: Final = "OPEN"
READY: Final = "READY"
KEEPALIVE: Final = "KEEPALIVE"
DISCONNECT: Final = "DISCONNECT"
POST: Final = "POST"
RESPONSE: Final = "RESPONSE"
GET: Final = "GET"
DELETE: Final = "DELETE"
EVENT: Final = "EVENT"
STREAM: Final = "STREAM"
PUT: Final = "PUT"
MMI: Final = "MMI"

#: NorFab's form. The one-byte form is the number it spells: PUT is 10 hex, not 0A.
_ASCII: Final = {
    OPEN: b"0x00",
    READY: b"0x01",
    KEEPALIVE: b"0x02",
    DISCONNECT: b"0x03",
    POST: b"0x04",
    RESPONSE: b"0x05",
    GET: b"0x06",
    DELETE: b"0x07",
    EVENT: b"0x08",
    STREAM: b"0x09",
    PUT: b"0x10",
    MMI: b"0x11",
}
_BINARY: Final = {name: bytes([int(text, 16)]) for name, text in _ASCII.items()}
_SPELLINGS: Final = (_ASCII, _BINARY)


@value
class Open:
    """A peer declares itself, or the broker confirms. `role` is the header frame."""

    role: bytes
    body: bytes = b""
    is_binary: bool = False


@value
class NfpReady:
    """A worker registers for a service."""

    service: bytes
    is_binary: bool = False


@value
class KeepAlive:
    """Heartbeat of broker or worker."""

    role: bytes
    service: bytes
    is_binary: bool = False


@value
class NfpDisconnect:
    """Broker or worker ends the registration."""

    role: bytes
    service: bytes
    #: The text has a body frame, NorFab's peers have none.
    body: bytes | None = None
    is_binary: bool = False
    #: NorFab's broker swaps service and command; its workers ignore the message.
    is_swapped: bool = False


@value
class NfpRequest:
    """Client to broker: POST, GET, DELETE, PUT or MMI."""

    command: str
    service: bytes
    target: bytes
    uuid: bytes
    body: bytes
    is_binary: bool = False
    #: Further body frames: the text has "7 or more".
    more: tuple[bytes, ...] = ()


@value
class UnknownCommand:
    """Client to broker, complete but with an unknown command, so that it can be answered."""

    command: bytes
    service: bytes
    target: bytes
    uuid: bytes
    body: bytes


@value
class NfpTask:
    """Broker to worker: POST, GET, DELETE or PUT, on behalf of a client."""

    command: str
    client: bytes
    uuid: bytes
    body: bytes
    is_binary: bool = False
    #: For workers that declared `attempts` the attempt number; then further body frames.
    more: tuple[bytes, ...] = ()


@value
class NfpReport:
    """Worker to broker: RESPONSE, EVENT or STREAM."""

    command: str
    #: The client frame of the task. None: the text's short form, which has the service instead.
    client: bytes | None
    uuid: bytes
    status: bytes
    #: Empty, too, if the message has no body frame.
    body: bytes
    is_binary: bool = False
    #: Of workers that declared `attempts` the attempt number; then further body frames.
    more: tuple[bytes, ...] = ()
    service: bytes = b""


@value
class NfpReply:
    """Broker to client: RESPONSE, EVENT, STREAM or MMI."""

    command: str
    service: bytes
    uuid: bytes
    status: bytes
    body: bytes
    is_binary: bool = False
    #: Further body frames.
    more: tuple[bytes, ...] = ()


Message = (
    Open
    | NfpReady
    | KeepAlive
    | NfpDisconnect
    | NfpRequest
    | UnknownCommand
    | NfpTask
    | NfpReport
    | NfpReply
)
_Reader = Callable[[Frames, str, bool], Message]


def decode(frames: Frames) -> Message:
    """Decode one message. Raises `MalformedMessage`."""
    if len(frames) < 3 or frames[0]:
        raise MalformedMessage("an NFP message begins with an empty frame, a header and a command")
    found = _READERS.get((frames[1], frames[2]))
    if found is None:
        return _unusual(frames)
    read, command, is_binary = found
    return read(frames, command, is_binary)


def _unusual(frames: Frames) -> Message:
    """Decode a message whose third frame is not a known command."""
    header, command = frames[1], frames[2]
    if header == CLIENT and len(frames) >= 7:
        return UnknownCommand(command, frames[3], frames[4], frames[5], frames[6])
    if header == BROKER and len(frames) == 4 and frames[3] == _ASCII[DISCONNECT]:
        return NfpDisconnect(BROKER, service=command, is_swapped=True)
    if header not in (CLIENT, WORKER, BROKER):
        raise MalformedMessage(f"unknown NFP header {header[:16]!r}")
    raise MalformedMessage(f"command {command[:16]!r} does not follow header {header.decode()}")


def _need(frames: Frames, count: int, command: str) -> None:
    if len(frames) < count:
        raise MalformedMessage(f"{command} has {len(frames)} frames; it needs {count}")


def _open(frames: Frames, command: str, is_binary: bool) -> Message:
    return Open(frames[1], frames[3] if len(frames) > 3 else b"", is_binary)


def _ready(frames: Frames, command: str, is_binary: bool) -> Message:
    _need(frames, 4, command)
    return NfpReady(frames[3], is_binary)


def _keepalive(frames: Frames, command: str, is_binary: bool) -> Message:
    _need(frames, 4, command)
    return KeepAlive(frames[1], frames[3], is_binary)


def _disconnect(frames: Frames, command: str, is_binary: bool) -> Message:
    _need(frames, 4, command)
    return NfpDisconnect(frames[1], frames[3], frames[4] if len(frames) > 4 else None, is_binary)


def _request(frames: Frames, command: str, is_binary: bool) -> Message:
    _need(frames, 7, command)
    more = tuple(frames[7:])
    return NfpRequest(command, frames[3], frames[4], frames[5], frames[6], is_binary, more)


def _task(frames: Frames, command: str, is_binary: bool) -> Message:
    _need(frames, 7, command)
    return NfpTask(command, frames[3], frames[5], frames[6], is_binary, tuple(frames[7:]))


def _report(frames: Frames, command: str, is_binary: bool) -> Message:
    """Decode a report. The empty frame after the client tells the long form from the short one."""
    _need(frames, 6, command)
    if frames[4]:
        return _short_report(frames, command, is_binary)
    _need(frames, 7, command)
    body, more = _content(frames[7:])
    return NfpReport(command, frames[3], frames[5], frames[6], body, is_binary, more)


def _short_report(frames: Frames, command: str, is_binary: bool) -> Message:
    """Decode the form of the text's table: service, uuid, status, body."""
    _, _, _, service, uuid, status, *content = frames
    body, more = _content(content)
    return NfpReport(command, None, uuid, status, body, is_binary, more, service)


def _content(frames: Frames) -> tuple[bytes, tuple[bytes, ...]]:
    """Split "zero or more content frames" into the first one and the others."""
    return (frames[0], tuple(frames[1:])) if frames else (b"", ())


def _reply(frames: Frames, command: str, is_binary: bool) -> Message:
    _need(frames, 7, command)
    service, uuid, status, body, *more = frames[3:]
    return NfpReply(command, service, uuid, status, body, is_binary, tuple(more))


#: Header and command determine sender and receiver, and so the other frames.
_SHAPES: Final[dict[tuple[bytes, str], _Reader]] = {
    **{(role, OPEN): _open for role in (CLIENT, WORKER, BROKER)},
    (WORKER, READY): _ready,
    **{(role, KEEPALIVE): _keepalive for role in (WORKER, BROKER)},
    **{(role, DISCONNECT): _disconnect for role in (WORKER, BROKER)},
    **{(CLIENT, command): _request for command in (POST, GET, DELETE, PUT, MMI)},
    **{(BROKER, command): _task for command in (POST, GET, DELETE, PUT)},
    **{(WORKER, command): _report for command in (RESPONSE, EVENT, STREAM)},
    **{(BROKER, command): _reply for command in (RESPONSE, EVENT, STREAM, MMI)},
}
_READERS: Final[dict[tuple[bytes, bytes], tuple[_Reader, str, bool]]] = {
    (role, _SPELLINGS[is_binary][command]): (read, command, is_binary)
    for (role, command), read in _SHAPES.items()
    for is_binary in (False, True)
}


def encode(message: Message) -> Frames:
    """Encode one message."""
    return _WRITERS[type(message)](message)


def _write_open(m: Open) -> Frames:
    return (b"", m.role, _SPELLINGS[m.is_binary][OPEN], m.body)


def _write_ready(m: NfpReady) -> Frames:
    return (b"", WORKER, _SPELLINGS[m.is_binary][READY], m.service)


def _write_keepalive(m: KeepAlive) -> Frames:
    return (b"", m.role, _SPELLINGS[m.is_binary][KEEPALIVE], m.service)


def _write_disconnect(m: NfpDisconnect) -> Frames:
    command = _SPELLINGS[m.is_binary][DISCONNECT]
    if m.is_swapped:
        return (b"", m.role, m.service, command)
    head = (b"", m.role, command, m.service)
    return head if m.body is None else (*head, m.body)


def _write_request(m: NfpRequest) -> Frames:
    command = _SPELLINGS[m.is_binary][m.command]
    return (b"", CLIENT, command, m.service, m.target, m.uuid, m.body, *m.more)


def _write_unsupported(m: UnknownCommand) -> Frames:
    return (b"", CLIENT, m.command, m.service, m.target, m.uuid, m.body)


def task_frames(
    command: str,
    client: bytes,
    uuid: bytes,
    body: bytes,
    is_binary: bool,
    more: tuple[bytes, ...] = (),
) -> Frames:
    """Encode an `NfpTask` from its members: every job has one, so it saves the object."""
    return (b"", BROKER, _SPELLINGS[is_binary][command], client, b"", uuid, body, *more)


def reply_frames(
    command: str,
    service: bytes,
    uuid: bytes,
    status: bytes,
    body: bytes,
    is_binary: bool,
    more: tuple[bytes, ...] = (),
) -> Frames:
    """Encode an `NfpReply` from its members: every job has several."""
    return (b"", BROKER, _SPELLINGS[is_binary][command], service, uuid, status, body, *more)


def _write_task(m: NfpTask) -> Frames:
    return task_frames(m.command, m.client, m.uuid, m.body, m.is_binary, m.more)


def _write_report(m: NfpReport) -> Frames:
    command = _SPELLINGS[m.is_binary][m.command]
    if m.client is None:
        return (b"", WORKER, command, m.service, m.uuid, m.status, m.body, *m.more)
    return (b"", WORKER, command, m.client, b"", m.uuid, m.status, m.body, *m.more)


def _write_reply(m: NfpReply) -> Frames:
    return reply_frames(m.command, m.service, m.uuid, m.status, m.body, m.is_binary, m.more)


_WRITERS: Final[dict[type, Callable[..., Frames]]] = {
    Open: _write_open,
    NfpReady: _write_ready,
    KeepAlive: _write_keepalive,
    NfpDisconnect: _write_disconnect,
    NfpRequest: _write_request,
    UnknownCommand: _write_unsupported,
    NfpTask: _write_task,
    NfpReport: _write_report,
    NfpReply: _write_reply,
}
