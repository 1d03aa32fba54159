"""The bytes around every NCL message: a version, a checksum, metadata and the payload.

    offset  size  content
    0       1     version: 1 JSON, 2 protobuf
    1       4     CRC-32 of everything after it, big-endian
    5       n     the serialized message

All known peers send version 1. Version 2 is supported because real nodes accept it. The payload
stays bytes here; `wire` decodes it. Checks run in upstream's order: size, version, checksum, body.
"""

from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from dragoman.dialects.base import MalformedMessage
from dragoman.model.value import value

JSON: Final = 1
PROTOBUF: Final = 2

_HEAD: Final = Struct(">BI")
#: What a decoder may raise on untrusted bytes.
BAD_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)

#: Characters that upstream's encoder escapes. They occur inside strings only, so replacing them in
#: finished JSON is safe.
_ESCAPES: Final = (
    (b"&", b"\\u0026"),
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


@value
class Envelope:
    """A decoded envelope."""

    metadata: Mapping[str, str]
    payload: bytes
    version: int = JSON


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    metadata: dict[str, str]
    payload: msgspec.Raw


_encoder: Final = msgspec.json.Encoder()
_body_decoder: Final = msgspec.json.Decoder(_Body)


def dump(thing: object) -> bytes:
    """Write compact JSON, byte for byte as upstream does."""
    text = _encoder.encode(thing)
    for plain, escaped in _ESCAPES:
        if plain in text:
            text = text.replace(plain, escaped)
    return text


def seal(metadata: Mapping[str, str], payload: bytes, version: int = JSON) -> bytes:
    """Put a payload (finished JSON) into an envelope. Metadata is never null."""
    ordered = {key: metadata[key] for key in sorted(metadata)}
    if version == JSON:
        return seal_json(dump(ordered), payload)
    body = _protobuf(ordered, payload)
    return _HEAD.pack(version, crc32(body)) + body


def seal_json(metadata: bytes, payload: bytes) -> bytes:
    """Put finished JSON of both into an envelope; metadata keys are sorted already."""
    body = b'{"metadata":' + metadata + b',"payload":' + payload + b"}"
    return _HEAD.pack(JSON, crc32(body)) + body


def unseal(data: bytes) -> Envelope:
    """Open an envelope."""
    if not data:
        raise MalformedMessage("failed to deserialize message envelope: empty data")
    if len(data) < _HEAD.size:
        raise _unreadable(f"bad message: {len(data)} bytes are fewer than the header's 5")
    version, checksum = _HEAD.unpack_from(data)
    if version not in _READERS:
        raise _unreadable(f"bad message: unsupported version {version}")
    body = data[_HEAD.size :]
    if crc32(body) != checksum:
        raise _unreadable("bad message: CRC check failed")
    return _READERS[version](body)


def _unreadable(reason: str) -> MalformedMessage:
    return MalformedMessage(f"failed to deserialize message envelope: {reason}")


def _read_json(body: bytes) -> Envelope:
    try:
        found = _body_decoder.decode(body)
        return Envelope(found.metadata, bytes(found.payload))
    except BAD_JSON:
        return _read_any_json(body)


def _read_any_json(body: bytes) -> Envelope:
    """Read an envelope with other spellings or unknown members (not strict)."""
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        found = {name.lower(): raw for name, raw in members.items()}
        metadata = msgspec.json.decode(found.get("metadata", b"null"), type=dict[str, str] | None)
    except BAD_JSON as error:
        raise _unreadable(f"the body is not the JSON of an envelope ({error})") from None
    if metadata is None:
        # A real node crashes on null metadata. Here it is a malformed message.
        raise _unreadable("metadata is null or missing")
    if "payload" not in found:
        raise _unreadable("payload is missing")
    return Envelope(metadata, bytes(found["payload"]))


# --- protobuf -----------------------------------------------------------------------------------
# Field 1: a submessage with a map<string, string> in its field 1. Field 2: a submessage with the
# payload in its field 1. Both have an unused field 2. All fields are length-delimited (wire type 2)
# except integers, which may occur in skipped fields.

_MAX_FIELDS: Final = 10_000


def _protobuf(metadata: Mapping[str, str], payload: bytes) -> bytes:
    pairs = b"".join(
        _field(1, _field(1, key.encode()) + _field(2, text.encode()))
        for key, text in metadata.items()
    )
    return _field(1, pairs) + _field(2, _field(1, payload))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _read_protobuf(body: bytes) -> Envelope:
    metadata: dict[str, str] = {}
    payload = b""
    try:
        for number, content in _fields(body):
            if number == 1:
                metadata.update(_pair(entry) for at, entry in _fields(content) if at == 1)
            elif number == 2:
                payload = dict(_fields(content)).get(1, b"")
    except (IndexError, UnicodeDecodeError) as error:
        raise _unreadable(f"the body is not protobuf ({error})") from None
    if not payload:
        raise _unreadable("payload is missing")
    return Envelope(metadata, payload, PROTOBUF)


def _pair(entry: bytes) -> tuple[str, str]:
    found = dict(_fields(entry))
    return found.get(1, b"").decode(), found.get(2, b"").decode()


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (number, content) of the length-delimited fields; skip the others."""
    at = count = 0
    while at < len(data):
        count += 1
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 2:
            size, at = _read_varint(data, at)
            yield key >> 3, data[at : at + size]
            at += size
        elif kind in _SKIPS:
            at = _SKIPS[kind](data, at)
        else:
            raise IndexError(f"wire type {kind}")
        if at > len(data) or count > _MAX_FIELDS:
            raise IndexError("a field runs past the end")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 64:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise IndexError("a number has more than 64 bits")


_SKIPS: Final[dict[int, Callable[[bytes, int], int]]] = {
    0: lambda data, at: _read_varint(data, at)[1],
    1: lambda data, at: at + 8,
    5: lambda data, at: at + 4,
}

_READERS: Final = {JSON: _read_json, PROTOBUF: _read_protobuf}
