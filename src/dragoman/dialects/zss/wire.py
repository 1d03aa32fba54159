"""The frames of ZSS, stateless: bytes to messages and back.

A message has seven fields and, towards and from services, the client's identity before them. There
is no empty delimiter in any direction. Frames are as a DEALER sees them.

Payload and headers are never decoded here: their MessagePack is of a kind that only the peers
themselves read without loss (see `oldpack`). A header is added by counting, not by decoding. Only
the address is read, because it says where the message goes.
"""

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Any, Final

import msgpack

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.zss import oldpack
from dragoman.model.body import Body
from dragoman.model.value import field, value

NAME: Final = "zss"
PROTOCOL: Final = b"ZSS:0.0"
REQ: Final = b"REQ"
REP: Final = b"REP"
#: One message of several, an extension the text announces; see README.md.
PRT: Final = b"PRT"

NIL: Final = b"\xc0"
NO_HEADERS: Final = b"\x80"
_MILLIS: Final = Struct(">Bd")
_SMALL: Final = 512


@value
class ZssMessage:
    """One message. The frames keep the bytes they came in."""

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
    """Where a message goes."""

    sid: str
    verb: str = ""
    sversion: str = "*"
    #: Whatever else the map holds; Dragoman's own peers say `job`, `timeout` and more here.
    extra: Mapping[str, Any] = field(default_factory=dict)


def decode(frames: Frames) -> ZssMessage:
    """Read one message. Raises `MalformedMessage` on what is none."""
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
    """Keep what a request or reply carries, byte for byte."""
    return Body(NAME, (m.protocol, m.rid, m.address, m.headers, m.status, m.payload))


def message_of(body: Body, kind: bytes) -> ZssMessage:
    """Make a message of what was kept. Raises ValueError on a body of another shape."""
    protocol, rid, address, headers, status, payload = body.parts
    return ZssMessage(kind, rid, address, headers, status, payload, protocol)


# --- addresses ----------------------------------------------------------------------------------


def read_address(frame: bytes) -> ZssAddress:
    """Read an address. Raises `MalformedMessage` if it names no service."""
    return _cached_address(frame) if len(frame) <= _SMALL else _address(frame)


def _address(frame: bytes) -> ZssAddress:
    said = address_map(frame)
    sid, verb, sversion = said.get("sid"), said.get("verb", ""), said.get("sversion", "*")
    if not isinstance(sid, str):
        raise MalformedMessage("the address has no sid")
    if not isinstance(verb, str) or not isinstance(sversion, str):
        raise MalformedMessage("verb and sversion of an address are text")
    extra = {k: v for k, v in said.items() if k not in ("sid", "verb", "sversion")}
    return ZssAddress(sid, verb, sversion, extra)


_cached_address = lru_cache(maxsize=4096)(_address)


def address_map(frame: bytes) -> dict[str, Any]:
    """Read an address as it stands, keys in their order."""
    try:
        said = msgpack.unpackb(frame, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        try:
            said = oldpack.decode(frame)
        except ValueError as trouble:
            raise MalformedMessage(f"the address is {trouble}") from None
    if not isinstance(said, dict):
        raise MalformedMessage("the address is no map")
    return said


def write_address(sid: str, verb: str, sversion: str = "*", **extra: Any) -> bytes:
    """Write an address, in the order of the JavaScript peers."""
    return oldpack.encode({"sid": sid, "sversion": sversion, "verb": verb, **extra})


def read_names(said: object) -> tuple[str, ...]:
    """Read a list of names in an address; what is none counts as not said."""
    return tuple(each for each in said if isinstance(each, str)) if isinstance(said, list) else ()


def with_sid(frame: bytes, sid: str) -> bytes:
    """Put another service's name into an address, and leave the rest of it alone."""
    if read_address(frame).sid == sid:
        return frame
    said = address_map(frame)
    said["sid"] = sid
    return oldpack.encode(said)


# --- headers ------------------------------------------------------------------------------------


def with_time(headers: bytes, name: bytes, at: float) -> bytes:
    """Add the header `name` with an instant in milliseconds, unless it is there or cannot be."""
    key = bytes([0xA0 | len(name)]) + name
    if key in headers:
        return headers
    return _with_entry(headers, key + _MILLIS.pack(0xCB, float(round(at * 1000))))


def _with_entry(headers: bytes, entry: bytes) -> bytes:
    """Add one entry to an encoded map by counting it; what is no map stays as it is."""
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
    """Read a status: ASCII digits. Empty, and the `null` of JavaScript, are none."""
    return int(status) if 0 < len(status) <= 4 and status.isdigit() else None


def is_success(status: bytes) -> bool:
    """Whether a status says that all went well."""
    code = status_code(status)
    return code is not None and 200 <= code < 300
