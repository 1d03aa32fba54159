"""The frames of MDP 0.1 and 0.2: a stateless codec between frames and messages.

Version 0.1 begins with an empty frame, has REPLY, and its client messages have no command. Version
0.2 has no empty frame, and PARTIAL and FINAL in place of REPLY. `version` is that of a message.
Frames are as a DEALER sees them, without an identity.

The meaning of messages, and their order, belong to the sides.
"""

from collections.abc import Callable
from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.model.value import value

NAME: Final = "mdp"
V1: Final = 1
V2: Final = 2
Parts = tuple[bytes, ...]

_CLIENT: Final = {V1: b"MDPC01", V2: b"MDPC02"}
_WORKER: Final = {V1: b"MDPW01", V2: b"MDPW02"}
#: Commands of the worker protocol. Version 0.1 has REPLY, whose number 0.2 gives to PARTIAL.
_READY: Final = {V1: b"\x01", V2: b"\x01"}
_REQUEST: Final = {V1: b"\x02", V2: b"\x02"}
_PARTIAL: Final = b"\x03"
_FINAL: Final = {V1: b"\x03", V2: b"\x04"}
_HEARTBEAT: Final = {V1: b"\x04", V2: b"\x05"}
_DISCONNECT: Final = {V1: b"\x05", V2: b"\x06"}
#: Commands of the client protocol 0.2.
_C_REQUEST: Final = b"\x01"
_C_PARTIAL: Final = b"\x02"
_C_FINAL: Final = b"\x03"


@value
class ClientRequest:
    """Client to broker: a request to a service."""

    service: bytes
    body: Parts
    version: int = V2


@value
class ClientReply:
    """Broker to client: PARTIAL or FINAL of 0.2, or REPLY of 0.1, which is final."""

    service: bytes
    body: Parts
    is_final: bool = True
    version: int = V2


@value
class MdpReady:
    """A worker registers for a service."""

    service: bytes
    #: Frames after the service. The text has none; our own worker's note is here.
    surplus: Parts = ()
    version: int = V2


@value
class WorkerRequest:
    """Broker to worker: a request of a client. `client` is the envelope that a reply returns."""

    client: bytes
    body: Parts
    version: int = V2


@value
class WorkerReply:
    """Worker to broker: PARTIAL or FINAL of 0.2, or REPLY of 0.1, which is final."""

    client: bytes
    body: Parts
    is_final: bool = True
    version: int = V2


@value
class MdpHeartbeat:
    """Broker or worker is alive."""

    #: Frames after the command. The text has none; our own broker's note is here.
    surplus: Parts = ()
    version: int = V2


@value
class MdpDisconnect:
    """Broker or worker ends the registration."""

    version: int = V2
    #: A note with the reason, to our own workers only.
    surplus: Parts = ()


Message = (
    ClientRequest
    | ClientReply
    | MdpReady
    | WorkerRequest
    | WorkerReply
    | MdpHeartbeat
    | MdpDisconnect
)


def decode(frames: Frames, to_broker: bool = True) -> Message:
    """Decode one message. Raises `MalformedMessage`.

    A client's message to the broker and one of the broker to a client begin alike in 0.1, so the
    direction is an argument.
    """
    version = V1 if frames and not frames[0] else V2
    rest = list(frames[1:] if version == V1 else frames)
    if not rest:
        raise MalformedMessage("an MDP message begins with a protocol header")
    if rest[0] == _CLIENT[version]:
        return _client(rest[1:], version, to_broker)
    if rest[0] == _WORKER[version]:
        return _worker(rest[1:], version)
    raise MalformedMessage(f"not an MDP header of version 0.{version}: {rest[0][:16]!r}")


def _client(rest: list[bytes], version: int, to_broker: bool) -> Message:
    is_final = True
    if version == V2:
        command = rest.pop(0) if rest else b""
        known = (_C_REQUEST,) if to_broker else (_C_PARTIAL, _C_FINAL)
        if command not in known:
            raise MalformedMessage(f"unknown MDP/Client command {command[:16].hex()}")
        is_final = command != _C_PARTIAL
    if len(rest) < 2:
        raise MalformedMessage("an MDP/Client message needs a service and a body")
    service, body = rest[0], tuple(rest[1:])
    if to_broker:
        return ClientRequest(service, body, version)
    return ClientReply(service, body, is_final, version)


def _worker(rest: list[bytes], version: int) -> Message:
    command = rest[0] if rest else b""
    read = _READERS[version].get(command)
    if read is None:
        raise MalformedMessage(f"unknown MDP/Worker command {command[:16].hex()}")
    return read(rest[1:], version)


def _ready(rest: list[bytes], version: int) -> Message:
    if not rest:
        raise MalformedMessage("READY names no service")
    return MdpReady(rest[0], tuple(rest[1:]), version)


def _envelope(rest: list[bytes]) -> tuple[bytes, Parts]:
    if len(rest) < 3 or rest[1]:
        raise MalformedMessage("a client address, an empty frame and a body are missing")
    return rest[0], tuple(rest[2:])


def _reply(is_final: bool) -> "Callable[[list[bytes], int], Message]":
    return lambda rest, version: WorkerReply(*_envelope(rest), is_final, version)


_Reader = Callable[[list[bytes], int], Message]


def _readers(version: int) -> dict[bytes, _Reader]:
    found: dict[bytes, _Reader] = {
        _READY[version]: _ready,
        _REQUEST[version]: lambda rest, v: WorkerRequest(*_envelope(rest), v),
        _FINAL[version]: _reply(is_final=True),
        _HEARTBEAT[version]: lambda rest, v: MdpHeartbeat(tuple(rest), v),
        _DISCONNECT[version]: lambda rest, v: MdpDisconnect(v, tuple(rest)),
    }
    return found if version == V1 else {**found, _PARTIAL: _reply(is_final=False)}


_READERS: Final = {version: _readers(version) for version in (V1, V2)}


def encode(message: Message) -> Frames:
    """Encode one message in its version. A PARTIAL has no form in 0.1."""
    return _WRITERS[type(message)](message)


def _head(header: dict[int, bytes], version: int) -> Parts:
    return (b"", header[version]) if version == V1 else (header[version],)


def _write_request(m: ClientRequest) -> Frames:
    command = (_C_REQUEST,) if m.version == V2 else ()
    return (*_head(_CLIENT, m.version), *command, m.service, *m.body)


def _write_reply(m: ClientReply) -> Frames:
    command = (_C_FINAL if m.is_final else _C_PARTIAL,) if m.version == V2 else ()
    return (*_head(_CLIENT, m.version), *command, m.service, *m.body)


def _write_worker_reply(m: WorkerReply) -> Frames:
    command = _FINAL[m.version] if m.is_final else _PARTIAL
    return (*_head(_WORKER, m.version), command, m.client, b"", *m.body)


_WRITERS: Final[dict[type, Callable[..., Frames]]] = {
    ClientRequest: _write_request,
    ClientReply: _write_reply,
    MdpReady: lambda m: (*_head(_WORKER, m.version), _READY[m.version], m.service, *m.surplus),
    WorkerRequest: lambda m: (
        *_head(_WORKER, m.version), _REQUEST[m.version], m.client, b"", *m.body,
    ),
    WorkerReply: _write_worker_reply,
    MdpHeartbeat: lambda m: (*_head(_WORKER, m.version), _HEARTBEAT[m.version], *m.surplus),
    MdpDisconnect: lambda m: (*_head(_WORKER, m.version), _DISCONNECT[m.version], *m.surplus),
}  # fmt: skip
