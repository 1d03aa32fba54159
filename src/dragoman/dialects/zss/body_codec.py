"""Calls and answers in ZSS: the verb is the task, the payload holds arguments or a result.

There is one payload. Arguments are written as:

- named ones only: a map of them;
- one positional: the value itself;
- none: nil;
- others, and those that would read as one of the above: `{"args": [...], "kwargs": {...}}`.

Reading is the reverse: a map is named arguments, nil is none, any other value is one positional.
Client libraries write verbs in capitals, so a verb in capitals is read in lower case. Bytes are the
buffers of msgpack-js. A request of raw bytes without a task has the verb `RAW`. The address holds
the `timeout`, in seconds.

A result is the payload with status 200; a fault is a map with its status (see `statuses`).

A body holds the six frames of a message without type and client. The codec leaves protocol, request
id and service name empty; the side that sends the message fills them in.
"""

from typing import Any, Final

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.statuses import fault_payload, read_fault, status_of
from dragoman.dialects.zss.wire import (
    NAME,
    NO_HEADERS,
    REP,
    REQ,
    ZssMessage,
    body_of,
    message_of,
    read_address,
    status_code,
    write_address,
)
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable

RAW: Final = "RAW"
_WRAPPED: Final = {"args", "kwargs"}


class ZssBodyCodec:
    """Converts content to ZSS bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Read a request."""
        m = _message(body, REQ)
        try:
            address = read_address(m.address)
        except MalformedMessage as error:
            raise Unmappable(f"a ZSS request without a readable address: {error}") from None
        content, headers = _value(m.payload), read_headers(m.headers)
        timeout = address.extra.get("timeout")
        timeout = float(timeout) if isinstance(timeout, int | float) else None
        if isinstance(content, bytes) and address.verb.upper() == RAW:
            return Call(raw=content, headers=headers, timeout=timeout)
        args, kwargs = _arguments(content)
        return Call(task_of(address.verb), args, kwargs, None, headers, timeout)

    def write_call(self, call: Call) -> Body:
        """Write a request."""
        return body_of(call_message(call, "", b""))

    def read_answer(self, body: Body) -> Answer:
        """Read a result."""
        m = _message(body, REP)
        content = _value(m.payload)
        code = status_code(m.status)
        # A status below 200 is a part of a stream, not a failure.
        if code is None or code >= 300:
            return Answer(fault=read_fault(code, content))
        return Answer(raw=content) if isinstance(content, bytes) else Answer(content)

    def write_answer(self, answer: Answer) -> Body:
        """Write a result."""
        status, payload = answer_frames(answer)
        return body_of(ZssMessage(REP, b"", b"", b"", status, payload, b""))


def call_message(call: Call, sid: str, rid: bytes, **extra: Any) -> ZssMessage:
    """Write a call as a request to a service."""
    if call.timeout is not None:
        extra["timeout"] = call.timeout
    verb = call.task or (RAW if call.raw is not None else "")
    payload = oldpack.encode(call.raw if call.raw is not None else _payload(call))
    headers = oldpack.encode(dict(call.headers)) if call.headers else NO_HEADERS
    return ZssMessage(REQ, rid, write_address(sid, verb, **extra), headers, b"", payload)


def answer_frames(answer: Answer) -> tuple[bytes, bytes]:
    """Write a result as status and payload."""
    if answer.fault is not None:
        return status_of(answer.fault), fault_payload(answer.fault)
    return b"200", oldpack.encode(answer.raw if answer.raw is not None else answer.value)


def task_of(verb: str) -> str:
    """Return the task of a verb; client libraries write verbs in capitals."""
    return verb.lower() if verb.isupper() else verb


def read_headers(frame: bytes) -> dict[str, str]:
    """Read the headers that are text; the suite's `micro.*` times are left out."""
    try:
        content = oldpack.decode(frame) if frame else None
    except ValueError as error:
        raise Unmappable(f"unreadable ZSS headers: {error}") from None
    if not isinstance(content, dict):
        return {}
    return {k: v for k, v in content.items() if isinstance(k, str) and isinstance(v, str)}


def _payload(call: Call) -> object:
    args, kwargs = list(call.args), dict(call.kwargs)
    if not args:
        return {"args": [], "kwargs": kwargs} if kwargs.keys() == _WRAPPED else kwargs or None
    is_single = len(args) == 1 and not kwargs
    if is_single and args[0] is not None and not isinstance(args[0], dict):
        return args[0]
    return {"args": args, "kwargs": kwargs}


def _arguments(content: object) -> tuple[tuple[object, ...], dict[str, object]]:
    if content is None:
        return (), {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        return (content,), {}
    args, kwargs = content.get("args"), content.get("kwargs")
    if content.keys() == _WRAPPED and isinstance(args, list) and isinstance(kwargs, dict):
        return tuple(args), kwargs
    return (), content


def _value(payload: bytes) -> object:
    try:
        return oldpack.decode(payload) if payload else None
    except ValueError as error:
        raise Unmappable(f"unreadable ZSS payload: {error}") from None


def _message(body: Body, kind: bytes) -> ZssMessage:
    try:
        return message_of(body, kind)
    except ValueError:
        raise Unmappable(f"a ZSS body of {len(body.parts)} parts, not 6") from None
