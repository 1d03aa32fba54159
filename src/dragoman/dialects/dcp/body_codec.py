"""How DCP writes content: data parts, of which the protocol itself says nothing.

A body is the tail of a DCP message: metadata parts, an empty part, data parts. Metadata is never
read or written here.

A call is two data parts: the task's name, and a MessagePack list of its positional and its named
arguments, `[[...], {...}]`. A raw request that names a task is such a call with one argument.
Anything else is not a call of a task: a single part is the raw request, several are bytes arguments
of the task without a name. DagBox's own services speak so.

A result is one data part, MessagePack, or raw bytes as they are. A part that is not MessagePack
from its first byte to its last is raw; raw bytes that happen to be MessagePack are therefore
written as MessagePack's own bytes. Several parts are a list. A fault is a MessagePack map with
the only member `dragoman-fault`.
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
    """DCP's way to write content into bodies."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Undress a request."""
        parts = data_of(_tail(body))
        call = _as_call(parts) if len(parts) == 2 else None
        if call is not None:
            return call
        return Call(raw=b"".join(parts)) if len(parts) < 2 else Call(args=parts)

    def write_call(self, call: Call) -> Body:
        """Dress a request."""
        return Body(NAME, (b"", *call_parts(call)))

    def read_answer(self, body: Body) -> Answer:
        """Undress a result."""
        parts = data_of(_tail(body))
        if not parts:
            return Answer()
        if len(parts) > 1:
            return Answer([_value_or_raw(part) for part in parts])
        return _one_answer(parts[0])

    def write_answer(self, answer: Answer) -> Body:
        """Dress a result."""
        return Body(NAME, (b"", *answer_parts(answer)))


def call_parts(call: Call) -> Tail:
    """Write a call as data parts."""
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
    """Write a result as data parts."""
    if answer.fault is not None:
        fault = {"code": answer.fault.code.value, "message": answer.fault.message}
        return (pack({FAULT: fault}),)
    return (pack(answer.value) if answer.raw is None else _raw_part(answer.raw),)


def _raw_part(raw: bytes) -> bytes:
    """Write raw bytes as they are, unless they would be taken for MessagePack."""
    try:
        unpack(raw)
    except ValueError:
        return raw
    return pack(raw)


def pack(value: Any) -> bytes:
    """Write a value as MessagePack."""
    try:
        packed: bytes = msgpack.packb(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as trouble:
        raise Unmappable(f"no MessagePack form, so none in DCP: {trouble}") from None
    return packed


def unpack(part: bytes) -> Any:
    """Read a part that is MessagePack as a whole. Raises ValueError otherwise."""
    try:
        value = msgpack.unpackb(part, strict_map_key=False, timestamp=0)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as trouble:
        raise ValueError(f"not MessagePack: {trouble}") from None
    return _plain(value)


def _plain(value: Any) -> Any:
    """Refuse what has no place in content (extension types), however deep it sits.

    Keys that are not text become text; where that would make two of them one, nothing is read.
    """
    if isinstance(value, msgpack.ExtType | msgpack.Timestamp):
        raise ValueError("a MessagePack extension has no form in content")
    if isinstance(value, dict):
        found = {k if isinstance(k, str) else str(k): _plain(v) for k, v in value.items()}
        if len(found) < len(value):
            raise ValueError("keys of a MessagePack map that are the same as text")
        return found
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _as_call(parts: Tail) -> Call | None:
    """Read two parts as a call of a task, if that is what they are."""
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


def _fault(said: dict[str, Any]) -> Fault:
    return Fault(fault_code(said.get("code")), str(said.get("message", "")))


def _value_or_raw(part: bytes) -> Any:
    try:
        return unpack(part)
    except ValueError:
        return part


def _tail(body: Body) -> Tail:
    if b"" not in body.parts:
        raise Unmappable("a DCP body without its delimiter")
    return body.parts
