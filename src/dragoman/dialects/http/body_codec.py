"""Calls and answers as JSON.

A call is an object of `task`, `args`, `kwargs`, `headers`, `timeout`; an answer has a `value` or a
`fault`. JSON has no bytes: a bytes value is written as `{"$bytes": "<base64>"}`. A raw request or
result has its bytes in a second part, unencoded.
"""

from typing import Any, Final

import msgspec

from dragoman.dialects.json_values import from_jsonable, to_jsonable
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "http"


class _Call(msgspec.Struct, omit_defaults=True):
    task: str = ""
    args: list[object] = []
    kwargs: dict[str, object] = {}
    headers: dict[str, str] = {}
    timeout: float | None = None


class _Fault(msgspec.Struct):
    code: str
    message: str = ""


class _Answer(msgspec.Struct, omit_defaults=True):
    value: object = None
    fault: _Fault | None = None
    worker: str = ""
    #: The name of a question, in the question and in its answer.
    request: str = ""


_CALLS: Final = msgspec.json.Decoder(_Call)
_ANSWERS: Final = msgspec.json.Decoder(_Answer)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class HttpBodyCodec:
    """Converts content to HTTP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Read a request."""
        content = _read(_CALLS, body)
        raw = body.parts[1] if len(body.parts) > 1 else None
        args, kwargs = (
            map(from_jsonable, content.args),
            {k: from_jsonable(v) for k, v in content.kwargs.items()},
        )
        return Call(content.task, tuple(args), kwargs, raw, content.headers, content.timeout)

    def write_call(self, call: Call) -> Body:
        """Write a request."""
        args, kwargs = _plain(call.args), _plain(call.kwargs)
        content = _Call(call.task, args, kwargs, dict(call.headers), call.timeout)
        return _body(content, call.raw)

    def read_answer(self, body: Body) -> Answer:
        """Read a result."""
        content = _read(_ANSWERS, body)
        fault = Fault(code_of(content.fault.code), content.fault.message) if content.fault else None
        raw = body.parts[1] if len(body.parts) > 1 else None
        return Answer(from_jsonable(content.value), raw, fault, content.worker)

    def write_answer(self, answer: Answer) -> Body:
        """Write a result."""
        fault = _Fault(answer.fault.code.value, answer.fault.message) if answer.fault else None
        return _body(_Answer(_plain(answer.value), fault, answer.worker), answer.raw)


def json_call(call: Call) -> Body:
    """Write a request whose arguments came as JSON: bytes are `$bytes` objects already."""
    args, kwargs = list(call.args), dict(call.kwargs)
    content = _Call(call.task, args, kwargs, dict(call.headers), call.timeout)
    return _body(content, call.raw)


def json_answer(answer: Answer) -> Body:
    """Write a result whose value came as JSON."""
    fault = _Fault(answer.fault.code.value, answer.fault.message) if answer.fault else None
    return _body(_Answer(answer.value, fault, answer.worker), answer.raw)


def question(request: str, content: object) -> Body:
    """Write a question, or the answer to it, in JSON, with the name of the question."""
    return _body(_Answer(content, request=request), None)


def code_of(text: str) -> FaultCode:
    """Read a fault code; an unknown one becomes TASK_FAILED."""
    try:
        return FaultCode(text)
    except ValueError:
        return FaultCode.TASK_FAILED


def members(body: Body) -> dict[str, Any]:
    """Return the members of a body's JSON object, each as JSON that is not parsed.

    Raw bytes are the member `value`, beside `raw`.
    """
    content: dict[str, object] = dict(_MEMBERS.decode(body.parts[0])) if body.parts else {}
    if len(body.parts) > 1:
        content |= {"value": msgspec.Raw(write(body.parts[1])), "raw": True}
    return content


def _plain(content: object) -> Any:
    try:
        return to_jsonable(content)
    except RecursionError:
        raise Unmappable("nested too deeply for JSON") from None


def write(content: object) -> bytes:
    """Write JSON, bytes as `$bytes`. Raises `Unmappable`."""
    try:
        return msgspec.json.encode(_plain(content))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unmappable(f"the content has no JSON form: {error}") from None


def _body(content: msgspec.Struct, raw: bytes | None) -> Body:
    try:
        head = msgspec.json.encode(content)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unmappable(f"the content has no JSON form: {error}") from None
    return Body(NAME, (head,) if raw is None else (head, bytes(raw)))


def _read(decoder: "msgspec.json.Decoder[Any]", body: Body) -> Any:
    try:
        return decoder.decode(body.parts[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError) as error:
        raise Unmappable(f"not a body of the http dialect: {error}") from None
