"""The content of DCP bodies: data parts, which the protocol itself leaves open.

A body is the tail of a DCP message: metadata parts, an empty part, data parts. The codec ignores
metadata.

A call is two data parts: the task's name, and a MessagePack list of its positional and its named
arguments, `[[...], {...}]`. A raw request that names a task is such a call with one argument.
Anything else is not a call of a task: a single part is a raw request, several parts are bytes
arguments of the task with the empty name. DagBox's own services use these forms.

A result is one data part, MessagePack, or raw bytes as they are. A part that is not MessagePack
as a whole is raw. So raw bytes that happen to be MessagePack are written as a MessagePack byte
string. Several parts are a list. A fault is a MessagePack map with the only key `dragoman-fault`.
"""

from typing import Any, Final

import msgpack

from dragoman.dialects.base import raw_as_argument
from dragoman.dialects.dcp.notes import fault_code
from dragoman.dialects.dcp.wire import Tail, data_of
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault

NAME: Final = "dcp"
FAULT: Final = "dragoman-fault"


class DcpBodyCodec:
    """Converts content to DCP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Decode a request."""
        parts = data_of(_tail(body))
        call = _as_call(parts) if len(parts) == 2 else None
        if call is not None:
            return call
        return Call(raw=b"".join(parts)) if len(parts) < 2 else Call(args=parts)

    def write_call(self, call: Call) -> Body:
        """Encode a request."""
        return Body(NAME, (b"", *call_parts(call)))

    def read_answer(self, body: Body) -> Answer:
        """Decode a result."""
        parts = data_of(_tail(body))
        if not parts:
            return Answer()
        if len(parts) > 1:
            return Answer([_value_or_raw(part) for part in parts])
        return _one_answer(parts[0])

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result."""
        return Body(NAME, (b"", *answer_parts(answer)))


def call_parts(call: Call) -> Tail:
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


def answer_parts(answer: Answer) -> Tail:
    """Encode a result as data parts."""
    if answer.fault is not None:
        fault = {"code": answer.fault.code.value, "message": answer.fault.message}
        return (pack({FAULT: fault}),)
    return (pack(answer.value) if answer.raw is None else _raw_part(answer.raw),)


def _raw_part(raw: bytes) -> bytes:
    """Return raw bytes unchanged, unless they would be read as MessagePack."""
    try:
        unpack(raw)
    except ValueError:
        return raw
    return pack(raw)


def pack(value: Any) -> bytes:
    """Encode a value as MessagePack. Raises `Unmappable`."""
    try:
        packed: bytes = msgpack.packb(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unmappable(f"no MessagePack form for DCP: {error}") from None
    return packed


def unpack(part: bytes) -> Any:
    """Decode a part that is MessagePack as a whole. Raises ValueError."""
    try:
        value = msgpack.unpackb(part, strict_map_key=False, timestamp=0)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise ValueError(f"not MessagePack: {error}") from None
    return _plain(value)


def _plain(value: Any) -> Any:
    """Refuse extension types at any depth, and turn keys into text.

    Raises ValueError for an extension type, and if two keys are equal as text.
    """
    if isinstance(value, msgpack.ExtType | msgpack.Timestamp):
        raise ValueError("a MessagePack extension has no form in content")
    if isinstance(value, dict):
        found = {k if isinstance(k, str) else str(k): _plain(v) for k, v in value.items()}
        if len(found) < len(value):
            raise ValueError("two keys of a MessagePack map are equal as text")
        return found
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _as_call(parts: Tail) -> Call | None:
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
    return Call(task, tuple(args), kwargs)


def _one_answer(part: bytes) -> Answer:
    try:
        value = unpack(part)
    except ValueError:
        return Answer(raw=part)
    if isinstance(value, dict) and value.keys() == {FAULT} and isinstance(value[FAULT], dict):
        return Answer(fault=_fault(value[FAULT]))
    return Answer(value)


def _fault(fields: dict[str, Any]) -> Fault:
    return Fault(fault_code(fields.get("code")), str(fields.get("message", "")))


def _value_or_raw(part: bytes) -> Any:
    try:
        return unpack(part)
    except ValueError:
        return part


def _tail(body: Body) -> Tail:
    if b"" not in body.parts:
        raise Unmappable("a DCP body without its empty delimiter part")
    return body.parts
