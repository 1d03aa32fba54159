"""The frames of ZSS, stateless: bytes to messages and back.

A message has seven frames; to and from services, the client's identity comes before them. There is
no empty delimiter. Frames are as a DEALER socket sees them.

Payload and headers are not decoded here, because decoding loses information (see `oldpack`). A
header is added by raising the map's count. Only the address is decoded: it names the service.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Final

import msgpack

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.zss import oldpack
from dragoman.model.body import Body
from dragoman.model.value import field, value

NAME: Final = "zss"
PROTOCOL: Final = b"ZSS:0.0"
REQ: Final = b"REQ"
REP: Final = b"REP"
#: A partial message, an extension that the specification announces; see README.md.
PRT: Final = b"PRT"

NIL: Final = b"\xc0"
NO_HEADERS: Final = b"\x80"
_MILLIS: Final = Struct(">Bd")
_SMALL: Final = 512


@value
class ZssMessage:
    """One message; the frames keep their original bytes."""

    kind: bytes
    rid: bytes
    address: bytes
    headers: bytes = NO_HEADERS
    status: bytes = b""
    payload: bytes = NIL
    protocol: bytes = PROTOCOL
    #: The client's identity; None where the message has seven frames.
    identity: bytes | None = None


@value
class ZssAddress:
    """The destination of a message."""

    sid: str
    verb: str = ""
    sversion: str = "*"
    #: All other members of the map; Dragoman's own peers add `job`, `timeout` and more.
    extra: Mapping[str, object] = field(default_factory=dict)


def decode(frames: Frames) -> ZssMessage:
    """Read one message. Raises `MalformedMessage`."""
    if len(frames) == 7:
        identity, rest = None, frames
    elif len(frames) == 8:
        identity, rest = frames[0], frames[1:]
    else:
        raise MalformedMessage(f"a ZSS message has 7 or 8 frames, not {len(frames)}")
    protocol, kind, rid, address, headers, status, payload = rest
    return ZssMessage(kind, rid, address, headers, status, payload, protocol, identity)


def encode(m: ZssMessage) -> Frames:
    """Write one message."""
    frames = (m.protocol, m.kind, m.rid, m.address, m.headers, m.status, m.payload)
    return frames if m.identity is None else (m.identity, *frames)


# --- bodies: a message without its type and its client -----------------------------------------


def body_of(m: ZssMessage) -> Body:
    """Return the body of a request or reply: its frames, byte for byte."""
    return Body(NAME, (m.protocol, m.rid, m.address, m.headers, m.status, m.payload))


def message_of(body: Body, kind: bytes) -> ZssMessage:
    """Return the message of a body. Raises ValueError if the body has not six parts."""
    protocol, rid, address, headers, status, payload = body.parts
    return ZssMessage(kind, rid, address, headers, status, payload, protocol)


# --- addresses ----------------------------------------------------------------------------------


def read_address(frame: bytes) -> ZssAddress:
    """Read an address. Raises `MalformedMessage` if it names no service."""
    return _cached_address(frame) if len(frame) <= _SMALL else _address(frame)


def _address(frame: bytes) -> ZssAddress:
    fields = address_map(frame)
    sid, verb, sversion = fields.get("sid"), fields.get("verb", ""), fields.get("sversion", "*")
    if not isinstance(sid, str):
        raise MalformedMessage("the address has no sid")
    if not isinstance(verb, str) or not isinstance(sversion, str):
        raise MalformedMessage("verb and sversion of an address are text")
    extra = {k: v for k, v in fields.items() if k not in ("sid", "verb", "sversion")}
    return ZssAddress(sid, verb, sversion, extra)


_cached_address = lru_cache(maxsize=4096)(_address)


def address_map(frame: bytes) -> dict[str, object]:
    """Read an address as a map, keys in their order."""
    try:
        fields = msgpack.unpackb(frame, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        try:
            fields = oldpack.decode(frame)
        except ValueError as error:
            raise MalformedMessage(f"the address is {error}") from None
    if not isinstance(fields, dict):
        raise MalformedMessage("the address is not a map")
    return fields


def write_address(sid: str, verb: str, sversion: str = "*", **extra: object) -> bytes:
    """Write an address, with its keys in the JavaScript peers' order."""
    return oldpack.encode({"sid": sid, "sversion": sversion, "verb": verb, **extra})


def read_names(names: object) -> tuple[str, ...]:
    """Read a list of names in an address; items that are not text are left out."""
    return tuple(n for n in names if isinstance(n, str)) if isinstance(names, list) else ()


def with_sid(frame: bytes, sid: str) -> bytes:
    """Replace the sid of an address and keep the rest."""
    if read_address(frame).sid == sid:
        return frame
    fields = address_map(frame)
    fields["sid"] = sid
    return oldpack.encode(fields)


# --- headers ------------------------------------------------------------------------------------


def with_time(headers: bytes, name: bytes, at: float) -> bytes:
    """Add the header `name` with a time in milliseconds, unless headers have it or are no map."""
    key = bytes([0xA0 | len(name)]) + name
    if key in headers:
        return headers
    return _with_entry(headers, key + _MILLIS.pack(0xCB, float(round(at * 1000))))


def _with_entry(headers: bytes, entry: bytes) -> bytes:
    """Add one entry to an encoded map by raising its count; other values stay as they are."""
    code = headers[0] if headers else 0
    if headers == NIL:
        return b"\x81" + entry
    if 0x80 <= code < 0x8F:
        return bytes([code + 1]) + headers[1:] + entry
    if code == 0x8F:
        return b"\xde\x00\x10" + headers[1:] + entry
    if code == 0xDE and len(headers) >= 3:
        count = int.from_bytes(headers[1:3]) + 1
        head = b"\xde" + count.to_bytes(2) if count < 2**16 else b"\xdf" + count.to_bytes(4)
        return head + headers[3:] + entry
    if code == 0xDF and len(headers) >= 5 and headers[1:5] != b"\xff\xff\xff\xff":
        return b"\xdf" + (int.from_bytes(headers[1:5]) + 1).to_bytes(4) + headers[5:] + entry
    return headers


# --- statuses -----------------------------------------------------------------------------------


def status_code(status: bytes) -> int | None:
    """Read a status: ASCII digits. None for an empty status and for JavaScript's `null`."""
    return int(status) if 0 < len(status) <= 4 and status.isdigit() else None


def is_success(status: bytes) -> bool:
    """Return whether a status is 2xx."""
    code = status_code(status)
    return code is not None and 200 <= code < 300
