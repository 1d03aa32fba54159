"""Content in memo01 payloads: a CBOR call or value after the self-describe tag, or raw bytes.

A memo01 payload is opaque. So a call or a value begins with CBOR's self-describe tag (55799): three
bytes that no text and hardly any file begins with. All other payloads are raw bytes. The README has
the table. Bodies between memo01 peers are not read here.
"""

from io import BytesIO
from typing import Any, Final

import cbor2

from dragoman.dialects.base import raw_as_argument
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "memo"
#: CBOR tag 55799, "this is CBOR".
TAG: Final = b"\xd9\xd9\xf7"
#: The first bytes of an encoded fault: the tag, a map of two, its first key "fault".
FAULT: Final = TAG + b"\xa2\x65fault"
#: Tag 24, "an encoded item": raw bytes that happen to begin with `TAG` are wrapped in it.
_ENCODED: Final = 24
#: The first bytes of non-empty maps; no text begins with them.
_MAPS: Final = frozenset(bytes([first]) for first in range(0xA1, 0xC0))
_DEPTH: Final = 128
_CODES: Final = frozenset(map(str, FaultCode))
#: The header that names the resources of a call.
RESOURCES: Final = "dragoman-resources"
_CALL_KEYS: Final = frozenset({"task", "args", "kwargs", "headers"})
_OPTIONAL: Final[tuple[tuple[str, object], ...]] = (("args", []), ("kwargs", {}), ("headers", {}))
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})


class MemoBodyCodec:
    """Converts content to memo01 payloads and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Read a request: a tagged call, a CBOR map with a task, or raw bytes."""
        payload = _payload(body)
        if payload.startswith(TAG):
            found = _load(payload)
            return Call(raw=_unwrapped(found)) if type(found) is cbor2.CBORTag else _call(found)
        try:
            return _call(_load(payload)) if payload[:1] in _MAPS else Call(raw=payload)
        except Unmappable:
            return Call(raw=payload)

    def write_call(self, call: Call) -> Body:
        """Write a request."""
        call = raw_as_argument(call)
        if call.raw is not None:
            return Body(NAME, (_raw(call.raw),))
        content: dict[str, object] = {
            "task": call.task,
            "args": list(call.args),
            "kwargs": dict(call.kwargs),
        }
        if call.headers:
            content["headers"] = dict(call.headers)
        _check(content)
        return Body(NAME, (TAG + _dump(content),))

    def read_answer(self, body: Body) -> Answer:
        """Read a result: a tagged value or fault, or raw bytes."""
        payload = _payload(body)
        if not payload.startswith(TAG):
            return Answer(raw=payload)
        fault = fault_in(payload)
        if fault is not None:
            return Answer(fault=fault)
        found = _load(payload)
        if type(found) is cbor2.CBORTag:
            return Answer(raw=_unwrapped(found))
        return Answer(value=_plain(found))

    def write_answer(self, answer: Answer) -> Body:
        """Write a result. Raises `Unmappable` for a fault: memo01 drops the request instead."""
        if answer.fault is not None:
            raise Unmappable(f"memo has no form for a fault ({answer.fault.code})")
        if answer.raw is not None:
            return Body(NAME, (_raw(answer.raw),))
        _check(answer.value)
        payload = TAG + _dump(answer.value)
        if fault_in(payload) is not None:
            raise Unmappable("a map of `fault` and `message` would be read as a fault by memo")
        return Body(NAME, (payload,))


def tagged(raw: bytes) -> bytes:
    """Write raw bytes so that no reader takes them for a value."""
    return TAG + _dump(cbor2.CBORTag(_ENCODED, raw))


def write_fault(fault: Fault) -> bytes:
    """Write a fault as SDK workers send it to the broker."""
    return TAG + _dump({"fault": str(fault.code), "message": fault.message})


def fault_in(payload: bytes) -> Fault | None:
    """Return the fault that an SDK worker wrote into a payload; None if there is none."""
    if not payload.startswith(FAULT):
        return None
    found = _load_or_none(payload)
    if type(found) is not dict or set(found) != {"fault", "message"}:
        return None
    code, message = found["fault"], found["message"]
    known = type(code) is str and code in _CODES and type(message) is str
    return Fault(FaultCode(code), message) if known else None


def as_value(payload: bytes) -> bytes:
    """Tag the answer to a converted call, if it is exactly one CBOR item: then it is a value.

    The worker got a CBOR call, so it answers in CBOR. Published workers do not know the tag.
    """
    if payload.startswith(TAG) or not is_cbor(payload):
        return payload
    return TAG + payload


def untagged(payload: bytes) -> bytes:
    """Remove the tag, for a peer that did not send it."""
    return payload.removeprefix(TAG)


# --- CBOR -----------------------------------------------------------------------------------


def _payload(body: Body) -> bytes:
    return b"".join(body.parts)


def _check(value: object, depth: int = 0) -> None:
    """Raise `Unmappable` for what a reader would refuse, before it is sent."""
    if depth >= _DEPTH - 1:
        raise Unmappable(f"nested deeper than {_DEPTH} levels, which memo cannot carry")
    if isinstance(value, dict):
        for key, each in value.items():
            if type(key) is not str:
                raise Unmappable(f"the map key {key!r:.60} is not text; memo has no form for it")
            _check(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            _check(each, depth + 1)
    elif type(value) not in _PLAIN and not isinstance(value, bytearray | str | int | float):
        raise Unmappable(f"a {type(value).__name__} has no form in memo")


def _dump(content: object) -> bytes:
    try:
        return cbor2.dumps(content, canonical=True)
    except (cbor2.CBORError, RecursionError, TypeError, ValueError) as error:
        raise Unmappable(f"memo cannot write this as CBOR: {error!s:.80}") from None


def _load(payload: bytes) -> object:
    """Read exactly one item, after the tag if there is one."""
    stream = BytesIO(payload.removeprefix(TAG))
    try:
        found = cbor2.CBORDecoder(stream, max_depth=_DEPTH).decode()
    except cbor2.CBORError as error:
        raise Unmappable(f"memo cannot read this payload as CBOR: {error!s:.80}") from None
    if stream.read(1):
        raise Unmappable("memo cannot read this payload as CBOR: more bytes follow the first item")
    return found


def _load_or_none(payload: bytes) -> object:
    """Read exactly one item; None if the payload is not that."""
    try:
        return _load(payload)
    except Unmappable:
        return None


def is_cbor(payload: bytes) -> bool:
    """Return whether a payload is exactly one CBOR item."""
    try:
        _load(payload)
    except Unmappable:
        return False
    return True


def _raw(raw: bytes) -> bytes:
    return tagged(raw) if raw.startswith(TAG) else raw


def _unwrapped(tag: cbor2.CBORTag) -> bytes:
    if tag.tag != _ENCODED or type(tag.value) is not bytes:
        raise Unmappable(f"memo does not know the CBOR tag {tag.tag}")
    return tag.value


def _is_call(found: dict[object, object]) -> bool:
    return type(found.get("task")) is str and _CALL_KEYS.issuperset(found)


def _call(found: object) -> Call:
    if type(found) is not dict or not _is_call(found):
        raise Unmappable("a tagged memo request must be a map of task, args and kwargs")
    args, kwargs, headers = (found.get(k, d) for k, d in _OPTIONAL)
    if type(args) is not list or type(kwargs) is not dict or type(headers) is not dict:
        raise Unmappable("args must be a list; kwargs and headers must be maps")
    if not all(type(v) is str for v in headers.values()):
        raise Unmappable("header values must be text")
    return Call(found["task"], tuple(_plain(args)), _plain(kwargs), headers=_plain(headers))


def _plain(found: Any) -> Any:
    """Return a value of JSON types and bytes; other CBOR types raise `Unmappable`."""
    kind = type(found)
    if kind in _PLAIN:
        return found
    if kind is list:
        return [_plain(item) for item in found]
    if kind is dict and all(type(key) is str for key in found):
        return {key: _plain(item) for key, item in found.items()}
    raise Unmappable(f"a CBOR {kind.__name__} (or a key that is not text) is not a plain value")
