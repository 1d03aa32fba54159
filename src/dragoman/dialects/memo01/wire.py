"""The five messages of memo01, stateless: a CBOR array as header, then the payload.

The sides decide who may send a message when. Reading is lenient where upstream is (indefinite
lengths, long integers). Writing is deterministic CBOR (RFC 8949, 4.2).
"""

from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NoReturn

import cbor2

from dragoman.dialects.base import MalformedMessage
from dragoman.model.value import value

VERSION: Final = "memo01"
READY, JOB, RESULT, HEARTBEAT, DISCONNECT = 1, 2, 3, 4, 5

#: A header is an array that holds at most one array; deeper nesting is refused unread.
MAX_DEPTH: Final = 3
#: Bounds of one READY: one message must not fill the registry.
MAX_SERVICES: Final = 1024
MAX_NAME_BYTES: Final = 1024


@value
class MemoReady:
    """A worker offers these services; the broker then gives it an ID."""

    services: tuple[str, ...]


@value
class MemoJob:
    """A job for a service: from a client with an empty ID, to a worker with the worker's ID."""

    id: bytes
    service: str
    timeout_ms: int
    payload: bytes = b""


@value
class MemoResult:
    """The result of a job: from a worker with its ID, to a client with an empty ID."""

    id: bytes
    payload: bytes = b""
    is_leaving: bool = False


@value
class MemoHeartbeat:
    """A heartbeat, in both directions."""

    id: bytes


@value
class MemoDisconnect:
    """The broker does not know this worker, or has dropped it."""

    id: bytes


MemoMessage = MemoReady | MemoJob | MemoResult | MemoHeartbeat | MemoDisconnect


# --- reading --------------------------------------------------------------------------------


def _refuse(*_: object) -> NoReturn:
    raise ValueError("a header has no tags")


#: The tags that cbor2 would silently convert to integers, strings and arrays. All other tags
#: become objects that no field accepts.
_REFUSED_TAGS: Final = dict.fromkeys((2, 3, 25, 28, 29, 256, 55799), _refuse)


def decode(message: bytes) -> MemoMessage:
    """Read one message. Raises only `MalformedMessage`."""
    header, payload = _split(message)
    if len(header) < 3 or header[0] != VERSION or type(header[0]) is not str:
        raise MalformedMessage("not a memo01 header")
    kind, id_ = header[1], header[2]
    if type(id_) is not bytes:
        raise MalformedMessage("the ID is not a byte string")
    read = _READERS.get(kind) if type(kind) is int else None
    if read is None:
        raise MalformedMessage(f"no message type {kind!r:.40}")
    return read(id_, header[3:], payload)


def _split(message: bytes) -> tuple[list[object], bytes]:
    """Read one CBOR array; the rest is the payload."""
    stream = BytesIO(message)
    try:
        header = cbor2.CBORDecoder(
            stream, max_depth=MAX_DEPTH, semantic_decoders=_REFUSED_TAGS
        ).decode()
    except cbor2.CBORError as error:
        raise MalformedMessage(f"the header is not CBOR: {error!s:.80}") from None
    if type(header) is not list:
        raise MalformedMessage("the header is not an array")
    return header, message[stream.tell() :]


def _read_ready(id_: bytes, rest: list[object], payload: bytes) -> MemoMessage:
    if id_ or payload or len(rest) != 1 or type(rest[0]) is not list:
        raise MalformedMessage("READY takes an empty ID, a list of names and no payload")
    names = rest[0]
    if len(names) > MAX_SERVICES:
        raise MalformedMessage(f"READY names {len(names)} services; {MAX_SERVICES} are allowed")
    for name in names:
        _check_name(name)
    # The text sets no order. MemoDB's broker ignores a READY whose names are not in its order.
    return MemoReady(in_order(tuple(names)))


def _check_name(name: object) -> None:
    if type(name) is not str or not name:
        raise MalformedMessage("a service name must be non-empty text")
    if len(name) > MAX_NAME_BYTES or len(name.encode()) > MAX_NAME_BYTES:
        raise MalformedMessage(f"a service name has more than {MAX_NAME_BYTES} bytes")


def _read_job(id_: bytes, rest: list[Any], payload: bytes) -> MemoMessage:
    if len(rest) != 2:
        raise MalformedMessage("JOB takes five fields")
    service, timeout = rest
    _check_name(service)
    if type(timeout) is not int:
        raise MalformedMessage("the timeout of a JOB is an integer")
    return MemoJob(id_, service, timeout, payload)


def _read_result(id_: bytes, rest: list[object], payload: bytes) -> MemoMessage:
    if len(rest) > 1 or (rest and type(rest[0]) is not bool):
        raise MalformedMessage("RESULT takes three fields, or a bool as the fourth")
    return MemoResult(id_, payload, bool(rest and rest[0]))


def _read_heartbeat(id_: bytes, rest: list[object], payload: bytes) -> MemoMessage:
    if rest or payload or not id_:
        raise MalformedMessage("HEARTBEAT takes an ID, no more fields and no payload")
    return MemoHeartbeat(id_)


def _read_disconnect(id_: bytes, rest: list[object], payload: bytes) -> MemoMessage:
    if rest or payload:
        raise MalformedMessage("DISCONNECT takes three fields and no payload")
    return MemoDisconnect(id_)


_READERS: Final[dict[int, Callable[[bytes, list[object], bytes], MemoMessage]]] = {
    READY: _read_ready,
    JOB: _read_job,
    RESULT: _read_result,
    HEARTBEAT: _read_heartbeat,
    DISCONNECT: _read_disconnect,
}


# --- writing --------------------------------------------------------------------------------


def encode(message: MemoMessage) -> bytes:
    """Write one message."""
    return _WRITERS[type(message)](message)


def in_order(services: tuple[str, ...]) -> tuple[str, ...]:
    """Return service names in the order that READY requires."""
    return tuple(sorted(set(services), key=lambda name: (len(name.encode()), name.encode())))


@lru_cache(maxsize=4096)
def _head(*fields: object) -> bytes:
    """Write a header; cached, because each worker gets the same few."""
    return cbor2.dumps([VERSION, *fields], canonical=True)


def _write_ready(message: MemoReady) -> bytes:
    return cbor2.dumps([VERSION, READY, b"", list(message.services)], canonical=True)


def _write_job(message: MemoJob) -> bytes:
    return _head(JOB, message.id, message.service, message.timeout_ms) + message.payload


def _write_result(message: MemoResult) -> bytes:
    flag = (True,) if message.is_leaving else ()
    return _head(RESULT, message.id, *flag) + message.payload


def _write_heartbeat(message: MemoHeartbeat) -> bytes:
    return _head(HEARTBEAT, message.id)


def _write_disconnect(message: MemoDisconnect) -> bytes:
    # The ID comes from a peer, so it must not fill the cache of `_head`.
    return cbor2.dumps([VERSION, DISCONNECT, message.id], canonical=True)


_WRITERS: Final[dict[type, Callable[[Any], bytes]]] = {
    MemoReady: _write_ready,
    MemoJob: _write_job,
    MemoResult: _write_result,
    MemoHeartbeat: _write_heartbeat,
    MemoDisconnect: _write_disconnect,
}
