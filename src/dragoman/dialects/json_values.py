"""JSON values: the conversion that the JSON dialects share.

JSON has no bytes. They are written as `{"$bytes": "<base64>"}`, at any depth, and read back from
it, so a map of that very form is refused. `msgspec.Raw` (JSON that is encoded already) passes
unchanged. Keys that are not text and infinite numbers have no JSON form. All of these raise
`Unmappable`.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import msgspec

from dragoman.model.content import Unmappable

BYTES: Final = "$bytes"


def to_jsonable(value: object) -> Any:
    """Convert a value to what JSON can hold. Raises `Unmappable`."""
    kind = type(value)
    if kind in (str, int, bool, type(None)):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {BYTES: b64encode(value).decode()}
    if isinstance(value, Mapping):
        if len(value) == 1 and BYTES in value and isinstance(from_jsonable(value), bytes):
            raise Unmappable(f"an object whose only key is {BYTES!r} would be read as bytes")
        return {_key(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        raise Unmappable(f"JSON has no {value}")
    if not isinstance(value, str | int | float | msgspec.Raw):
        raise Unmappable(f"JSON has no form for {kind.__name__}")
    return value


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise Unmappable(f"the object key {key!r} is not text; JSON has no form for it")
    return key


def from_jsonable(value: object) -> Any:
    """Restore the bytes that `to_jsonable` wrote, at any depth."""
    if isinstance(value, list):
        return [from_jsonable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and isinstance(text := value.get(BYTES), str):
        try:
            return b64decode(text, validate=True)
        except ValueError:
            return value
    return {key: from_jsonable(item) for key, item in value.items()}
