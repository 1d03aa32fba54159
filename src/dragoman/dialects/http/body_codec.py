"""What HTTP bodies mean: calls and answers as JSON.

A call is an object of `task`, `args`, `kwargs`, `headers`, `timeout`; an answer has a `value` or a
`fault`. JSON has no bytes, so a bytes value is written as `{"$bytes": "<base64>"}` and read back
from it. A request or result that is raw bytes altogether has them in a second part, unencoded.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.dialects.json_values import from_jsonable, to_jsonable
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "http"


class _Call(msgspec.Struct, omit_defaults=True):
    task: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    headers: dict[str, str] = {}
    timeout: float | None = None


class _Fault(msgspec.Struct):
    code: str
    message: str = ""


class _Answer(msgspec.Struct, omit_defaults=True):
    value: Any = None
    fault: _Fault | None = None
    worker: str = ""
    #: Names a question, in a question and in the answer to it.
    request: str = ""


_CALLS: Final = msgspec.json.Decoder(_Call)
_ANSWERS: Final = msgspec.json.Decoder(_Answer)


class HttpBodyCodec:
    """Content to HTTP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Undress a request."""
        said = _read(_CALLS, body)
        raw = body.parts[1] if len(body.parts) > 1 else None
        args, kwargs = (
            map(from_jsonable, said.args),
            {k: from_jsonable(v) for k, v in said.kwargs.items()},
        )
        return Call(said.task, tuple(args), kwargs, raw, said.headers, said.timeout)

    def write_call(self, call: Call) -> Body:
        """Dress a request."""
        args, kwargs = _plain(call.args), _plain(call.kwargs)
        said = _Call(call.task, args, kwargs, dict(call.headers), call.timeout)
        return _body(said, call.raw)

    def read_answer(self, body: Body) -> Answer:
        """Undress a result."""
        said = _read(_ANSWERS, body)
        fault = Fault(code_of(said.fault.code), said.fault.message) if said.fault else None
        raw = body.parts[1] if len(body.parts) > 1 else None
        return Answer(from_jsonable(said.value), raw, fault, said.worker)

    def write_answer(self, answer: Answer) -> Body:
        """Dress a result."""
        fault = _Fault(answer.fault.code.value, answer.fault.message) if answer.fault else None
        return _body(_Answer(_plain(answer.value), fault, answer.worker), answer.raw)


def question(request: str, said: Any) -> Body:
    """Dress a question, or the answer to it, under the name of the question."""
    return _body(_Answer(_plain(said), request=request), None)


def code_of(text: str) -> FaultCode:
    """Read the name of a fault; an unknown one is a failed task."""
    try:
        return FaultCode(text)
    except ValueError:
        return FaultCode.TASK_FAILED


def spread(parts: Sequence[bytes]) -> dict[str, Any]:
    """Return a body's JSON object as peers see it; raw bytes as a value that says it is raw."""
    said: dict[str, Any] = msgspec.json.decode(parts[0]) if parts else {}
    if len(parts) > 1:
        said |= {"value": to_jsonable(parts[1]), "raw": True}
    return said


def _plain(said: Any) -> Any:
    try:
        return to_jsonable(said)
    except RecursionError:
        raise Unmappable("nested too deeply for JSON") from None


def write(said: Any) -> bytes:
    """Write JSON, with bytes in their own form. Raises `Unmappable`."""
    try:
        return msgspec.json.encode(_plain(said))
    except (TypeError, ValueError, OverflowError, RecursionError) as why:
        raise Unmappable(f"no JSON form for http: {why}") from None


def _body(said: msgspec.Struct, raw: bytes | None) -> Body:
    try:
        head = msgspec.json.encode(said)
    except (TypeError, ValueError, OverflowError, RecursionError) as why:
        raise Unmappable(f"no JSON form for http: {why}") from None
    return Body(NAME, (head,) if raw is None else (head, bytes(raw)))


def _read(decoder: "msgspec.json.Decoder[Any]", body: Body) -> Any:
    try:
        return decoder.decode(body.parts[0])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IndexError) as why:
        raise Unmappable(f"no content of the http dialect: {why}") from None
