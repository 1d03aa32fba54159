"""How ZSS writes content: the verb is the task, the payload its arguments or its result.

There is one payload, so arguments are written as:

- named ones only: a map of them;
- one positional: the value itself;
- none: nil;
- anything else, or what would be mistaken for one of the above: `{"args": [...], "kwargs": {...}}`.

Read the same way: a map is named arguments, nil is none, any other value is one positional. Verbs
are not case sensitive and client libraries write them in capitals, so a verb in capitals is read in
small letters. Bytes are the buffers of msgpack-js; a request that is bytes and no task has the verb
`RAW`. A timeout travels in the address, as `timeout` in seconds.

A result is the payload with status 200; a fault is a map with its status (see `statuses`).

Bodies hold the six frames of a message without type and client. What a dress cannot know (protocol,
request id, the service's name) is left empty, and filled in by the side that sends it.
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
    """ZSS's way to write content into bodies."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Undress a request."""
        m = _message(body, REQ)
        try:
            address = read_address(m.address)
        except MalformedMessage as trouble:
            raise Unmappable(f"a ZSS request without an address: {trouble}") from None
        said, headers = _value(m.payload), read_headers(m.headers)
        timeout = address.extra.get("timeout")
        timeout = float(timeout) if isinstance(timeout, int | float) else None
        if isinstance(said, bytes) and address.verb.upper() == RAW:
            return Call(raw=said, headers=headers, timeout=timeout)
        args, kwargs = _arguments(said)
        return Call(task_of(address.verb), args, kwargs, None, headers, timeout)

    def write_call(self, call: Call) -> Body:
        """Dress a request."""
        return body_of(call_message(call, "", b""))

    def read_answer(self, body: Body) -> Answer:
        """Undress a result."""
        m = _message(body, REP)
        said = _value(m.payload)
        code = status_code(m.status)
        # Below 200 are the parts of a stream, which say how it goes and not that it failed.
        if code is None or code >= 300:
            return Answer(fault=read_fault(code, said))
        return Answer(raw=said) if isinstance(said, bytes) else Answer(said)

    def write_answer(self, answer: Answer) -> Body:
        """Dress a result."""
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
    """Read a verb: one in capitals only was written so by a client library."""
    return verb.lower() if verb.isupper() else verb


def read_headers(frame: bytes) -> dict[str, str]:
    """Read the headers that are text; the suite's own instants are left out."""
    try:
        said = oldpack.decode(frame) if frame else None
    except ValueError as trouble:
        raise Unmappable(f"ZSS headers that cannot be read: {trouble}") from None
    if not isinstance(said, dict):
        return {}
    return {k: v for k, v in said.items() if isinstance(k, str) and isinstance(v, str)}


def _payload(call: Call) -> Any:
    args, kwargs = list(call.args), dict(call.kwargs)
    if not args:
        return {"args": [], "kwargs": kwargs} if kwargs.keys() == _WRAPPED else kwargs or None
    is_alone = len(args) == 1 and not kwargs
    if is_alone and args[0] is not None and not isinstance(args[0], dict):
        return args[0]
    return {"args": args, "kwargs": kwargs}


def _arguments(said: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if said is None:
        return (), {}
    if not isinstance(said, dict) or not all(isinstance(key, str) for key in said):
        return (said,), {}
    args, kwargs = said.get("args"), said.get("kwargs")
    if said.keys() == _WRAPPED and isinstance(args, list) and isinstance(kwargs, dict):
        return tuple(args), kwargs
    return (), said


def _value(payload: bytes) -> Any:
    try:
        return oldpack.decode(payload) if payload else None
    except ValueError as trouble:
        raise Unmappable(f"a ZSS payload that cannot be read: {trouble}") from None


def _message(body: Body, kind: bytes) -> ZssMessage:
    try:
        return message_of(body, kind)
    except ValueError:
        raise Unmappable(f"a ZSS body of {len(body.parts)} parts, not 6") from None
