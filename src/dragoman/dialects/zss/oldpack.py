"""MessagePack as ZSS peers write it: the old specification, before str8, bin and ext.

msgpack-js uses codes that were assigned later in its own way: `c4` is JavaScript's `undefined`, one
byte; `d8` and `d9` are buffers with a 16 or 32 bit length. It cannot read 64-bit integers. So this
module writes text as raw, bytes as such buffers, and integers beyond 32 bits as floats.

Reading tries the old meaning first. If that fails, the data may come from a modern peer and is read
with the modern meaning.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, Final

import msgpack

from dragoman.model.content import Unmappable

_FLOAT: Final = Struct(">Bd")
_DEEPEST: Final = 100
_INT32: Final = range(-(2**31), 2**31)
_WHOLE: Final = 2**53


# --- writing --------------------------------------------------------------------------------


def encode(value: object) -> bytes:
    """Write a value. Raises `Unmappable` on what the old specification cannot hold."""
    out: list[bytes] = []
    _write(value, out, 0)
    return b"".join(out)


def _write(value: Any, out: list[bytes], depth: int) -> None:
    if depth > _DEEPEST:
        raise Unmappable(f"nested deeper than {_DEEPEST} levels, which ZSS cannot carry")
    kind = type(value)
    if kind is dict:
        out.append(_head(len(value), 0x80, 16, 0xDE))
        for key, each in value.items():
            if isinstance(key, tuple | frozenset):
                raise Unmappable(f"the map key {key!r:.60} has no form in ZSS")
            _write(key, out, depth + 1)
            _write(each, out, depth + 1)
    elif kind is list or kind is tuple:
        out.append(_head(len(value), 0x90, 16, 0xDC))
        for each in value:
            _write(each, out, depth + 1)
    else:
        out.append(_scalar(value))


def _head(count: int, fix: int, limit: int, code: int) -> bytes:
    if count < limit:
        return bytes([fix | count])
    if count < 2**16:
        return bytes([code]) + count.to_bytes(2)
    return bytes([code + 1]) + count.to_bytes(4)


def _scalar(value: object) -> bytes:
    if isinstance(value, str):
        return _raw(value)
    if isinstance(value, bytes | bytearray):
        return _buffer(bytes(value))
    if isinstance(value, int) and not isinstance(value, bool) and value not in _INT32:
        return _large(value)
    if value is None or isinstance(value, bool | int | float):
        packed: bytes = msgpack.packb(value, use_bin_type=False)
        return packed
    raise Unmappable(f"a {type(value).__name__} has no form in ZSS")


def _raw(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise Unmappable("text with a lone surrogate has no form in ZSS") from None
    return _head(len(raw), 0xA0, 32, 0xDA) + raw


def _buffer(raw: bytes) -> bytes:
    if len(raw) < 2**16:
        return b"\xd8" + len(raw).to_bytes(2) + raw
    return b"\xd9" + len(raw).to_bytes(4) + raw


def _large(value: int) -> bytes:
    """Write an integer beyond 32 bits as a float. Raises `Unmappable` beyond 53 bits.

    A larger one may be exact as a float, but its neighbours are not, so no reader can rely on it.
    """
    if abs(value) > _WHOLE:
        text = hex(value)
        shown = text if len(text) < 40 else f"{text[:36]}..."
        raise Unmappable(f"the integer {shown} exceeds 53 bits; ZSS peers would read it inexactly")
    return _FLOAT.pack(0xCB, float(value))


# --- reading --------------------------------------------------------------------------------


def decode(data: bytes) -> Any:
    """Read the one value in `data`. Raises ValueError if it is not MessagePack."""
    try:
        value, end = _read(data, 0, 0)
    except (ValueError, IndexError, error, TypeError):
        return _modern(data)
    return value if end == len(data) else _modern(data)


def _modern(data: bytes) -> object:
    try:
        value = msgpack.unpackb(data, strict_map_key=False, timestamp=0)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as reason:
        raise ValueError(f"not MessagePack: {reason}") from None
    return _without_extensions(value)


def _without_extensions(value: object) -> object:
    if isinstance(value, msgpack.ExtType | msgpack.Timestamp):
        raise ValueError("MessagePack extensions are not supported")
    if isinstance(value, dict):
        return {_without_extensions(k): _without_extensions(v) for k, v in value.items()}
    return [_without_extensions(v) for v in value] if isinstance(value, list) else value


def _read(data: bytes, at: int, depth: int) -> tuple[object, int]:
    if depth > _DEEPEST:
        raise ValueError(f"nested deeper than {_DEEPEST}")
    code = data[at]
    if code < 0x80:
        return code, at + 1
    if code >= 0xE0:
        return code - 0x100, at + 1
    if code < 0x90:
        return _map(data, at + 1, code & 0x0F, depth)
    if code < 0xA0:
        return _list(data, at + 1, code & 0x0F, depth)
    if code < 0xC0:
        return _text(data, at + 1, code & 0x1F)
    if code in _CONSTANTS:
        return _CONSTANTS[code], at + 1
    if code in _NUMBERS:
        form = _NUMBERS[code]
        return form.unpack_from(data, at + 1)[0], at + 1 + form.size
    if code not in _SIZED:
        raise ValueError(f"no code {code:02x} in the old MessagePack")
    length, take = _SIZED[code]
    (count,) = length.unpack_from(data, at + 1)
    return take(data, at + 1 + length.size, count, depth)


def _map(data: bytes, at: int, count: int, depth: int) -> tuple[dict[object, object], int]:
    found = {}
    for _ in range(count):
        key, at = _read(data, at, depth + 1)
        found[key], at = _read(data, at, depth + 1)
    return found, at


def _list(data: bytes, at: int, count: int, depth: int) -> tuple[list[object], int]:
    found = []
    for _ in range(count):
        each, at = _read(data, at, depth + 1)
        found.append(each)
    return found, at


def _text(data: bytes, at: int, count: int, depth: int = 0) -> tuple[str | bytes, int]:
    """Read raw: text if it is UTF-8, otherwise bytes."""
    raw, end = _bytes(data, at, count)
    try:
        return raw.decode(), end
    except UnicodeDecodeError:
        return raw, end


def _bytes(data: bytes, at: int, count: int, depth: int = 0) -> tuple[bytes, int]:
    if at + count > len(data):
        raise ValueError("ends inside a string or buffer")
    return data[at : at + count], at + count


_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True, 0xC4: None}
_NUMBERS: Final = {
    code: Struct(form)
    for code, form in {
        0xCA: ">f",
        0xCB: ">d",
        0xCC: ">B",
        0xCD: ">H",
        0xCE: ">I",
        0xCF: ">Q",
        0xD0: ">b",
        0xD1: ">h",
        0xD2: ">i",
        0xD3: ">q",
    }.items()
}
_SIZED: Final[dict[int, tuple[Struct, Callable[..., tuple[object, int]]]]] = {
    0xD8: (Struct(">H"), _bytes),
    0xD9: (Struct(">I"), _bytes),
    0xDA: (Struct(">H"), _text),
    0xDB: (Struct(">I"), _text),
    0xDC: (Struct(">H"), _list),
    0xDD: (Struct(">I"), _list),
    0xDE: (Struct(">H"), _map),
    0xDF: (Struct(">I"), _map),
}
