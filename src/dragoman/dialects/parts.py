"""Content in parts: the form that dialects with opaque binary parts share.

A call is two parts: the task's name, and a MessagePack list of its positional and its named
arguments, `[[...], {...}]`. A raw request that names a task is such a call with one argument.
Anything else is not a call of a task: a single part is a raw request, several parts are bytes
arguments of the task with the empty name.

A result is one part, MessagePack, or raw bytes as they are. A part that is not MessagePack as a
whole is raw. So raw bytes that happen to be MessagePack are written as a MessagePack byte string.
Several parts are a list. A fault is a MessagePack map with the only key `dragoman-fault`.
"""

from typing import Any, Final

import msgpack

from dragoman.dialects.base import raw_as_argument
from dragoman.dialects.notes import fault_code
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault

Parts = tuple[bytes, ...]
FAULT: Final = "dragoman-fault"
#: Types that read back as the same key of a map.
_KEYS: Final = (str, int, float, bytes, type(None))


def read_call(parts: Parts) -> Call:
    """Decode a request. Any parts are a request."""
    call = _as_call(parts) if len(parts) == 2 else None
    if call is not None:
        return call
    return Call(raw=b"".join(parts)) if len(parts) < 2 else Call(args=parts)


def read_answer(parts: Parts) -> Answer:
    """Decode a result. Any parts are a result."""
    if not parts:
        return Answer()
    if len(parts) > 1:
        return Answer([_value_or_raw(part) for part in parts])
    return _one_answer(parts[0])


def call_parts(call: Call) -> Parts:
    """Encode a call as data parts."""
    call = raw_as_argument(call)
    if call.raw is not None:
        return (call.raw,)
    is_parts = not call.task and not call.kwargs and len(call.args) > 1
    if is_parts and all(type(part) is bytes for part in call.args):
        parts = tuple(call.args)
        if len(parts) != 2 or _as_call(parts) is None:
            return parts
    return (call.task.encode(), pack([list(call.args), dict(call.kwargs)]))


def answer_parts(answer: Answer) -> Parts:
    """Encode a result as data parts."""
    if answer.fault is not None:
        fault = {"code": answer.fault.code.value, "message": answer.fault.message}
        return (pack({FAULT: fault}),)
    if answer.raw is not None:
        return (_raw_part(answer.raw),)
    if _is_fault(answer.value):
        raise Unmappable(f"a map whose only key is {FAULT!r} would be read as a fault")
    return (pack(answer.value),)


def _is_fault(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {FAULT} and isinstance(value[FAULT], dict)


def _raw_part(raw: bytes) -> bytes:
    """Return raw bytes unchanged, unless they would be read as MessagePack."""
    try:
        unpack(raw)
    except ValueError:
        return raw
    return pack(raw)


def pack(value: object) -> bytes:
    """Encode a value as MessagePack. Raises `Unmappable`."""
    try:
        _check_keys(value)
        packed: bytes = msgpack.packb(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unmappable(f"no MessagePack form: {error}") from None
    return packed


def _check_keys(value: object) -> None:
    """Refuse maps that would not read back: MessagePack has no tuple, so no such key.

    Raises `Unmappable`.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, _KEYS):
                raise Unmappable(f"the map key {key!r:.60} has no form in MessagePack")
            _check_keys(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_keys(each)


def unpack(part: bytes) -> Any:
    """Decode a part that is MessagePack as a whole. Raises ValueError."""
    try:
        value = msgpack.unpackb(part, strict_map_key=False, timestamp=0)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise ValueError(f"not MessagePack: {error}") from None
    return _plain(value)


def _plain(value: object) -> Any:
    """Refuse extension types at any depth. Raises ValueError."""
    if isinstance(value, msgpack.ExtType | msgpack.Timestamp):
        raise ValueError("a MessagePack extension has no form in content")
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _as_call(parts: Parts) -> Call | None:
    """Decode two parts as a call of a task; None if they are not one."""
    try:
        task, arguments = parts[0].decode(), unpack(parts[1])
    except ValueError:
        return None
    if not (isinstance(arguments, list) and len(arguments) == 2 and task.isprintable()):
        return None
    args, kwargs = arguments
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return None
    if not all(isinstance(name, str) for name in kwargs):
        return None
    return Call(task, tuple(args), kwargs)


def _one_answer(part: bytes) -> Answer:
    try:
        value = unpack(part)
    except ValueError:
        return Answer(raw=part)
    if _is_fault(value):
        return Answer(fault=_fault(value[FAULT]))
    return Answer(value)


def _fault(fields: dict[str, Any]) -> Fault:
    return Fault(fault_code(fields.get("code")), str(fields.get("message", "")))


def _value_or_raw(part: bytes) -> Any:
    try:
        return unpack(part)
    except ValueError:
        return part
