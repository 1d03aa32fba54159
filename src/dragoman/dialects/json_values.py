"""Values in JSON: what the dialects that speak JSON share.

JSON has no bytes. They are written as `{"$bytes": "<base64>"}`, at any depth, and read back from
it. JSON that is written already (`msgspec.Raw`) stays as it is. What JSON cannot hold at all (keys
that are not text, infinities) is `Unmappable`.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import msgspec

from dragoman.model.content import Unmappable

BYTES: Final = "$bytes"


def to_jsonable(said: Any) -> Any:
    """Return a value as JSON can hold it. Raises `Unmappable`."""
    kind = type(said)
    if kind in (str, int, bool, type(None)):
        return said
    if isinstance(said, bytes | bytearray | memoryview):
        return {BYTES: b64encode(said).decode()}
    if isinstance(said, Mapping):
        return {_key(key): to_jsonable(value) for key, value in said.items()}
    if isinstance(said, list | tuple):
        return [to_jsonable(value) for value in said]
    if isinstance(said, float) and not isfinite(said):
        raise Unmappable(f"JSON has no {said}")
    if not isinstance(said, str | int | float | msgspec.Raw):
        raise Unmappable(f"JSON has no form for {kind.__name__}")
    return said


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise Unmappable(f"the key {key!r} of an object is no text; JSON has no form for it")
    return key


def from_jsonable(said: Any) -> Any:
    """Undo what `to_jsonable` did to bytes, at any depth."""
    if isinstance(said, list):
        return [from_jsonable(value) for value in said]
    if not isinstance(said, dict):
        return said
    if len(said) == 1 and isinstance(text := said.get(BYTES), str):
        try:
            return b64decode(text, validate=True)
        except ValueError:
            return said
    return {key: from_jsonable(value) for key, value in said.items()}
