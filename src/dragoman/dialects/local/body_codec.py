"""Bodies of built-in services: MessagePack of the model's fields."""

from typing import Any, Final

import msgspec

from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

NAME: Final = "local"


class _LocalCall(msgspec.Struct, array_like=True):
    task: str
    args: list[object]
    kwargs: dict[str, object]
    raw: bytes | None


class _LocalAnswer(msgspec.Struct, array_like=True):
    value: object
    raw: bytes | None
    fault: str
    message: str


_CALLS: Final = msgspec.msgpack.Decoder(_LocalCall)
_ANSWERS: Final = msgspec.msgpack.Decoder(_LocalAnswer)


class LocalBodyCodec:
    """Converts calls and answers for the built-in services."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Decode a request."""
        call = _read(_CALLS, body)
        return Call(call.task, tuple(call.args), call.kwargs, call.raw)

    def write_call(self, call: Call) -> Body:
        """Encode a request."""
        return _write(_LocalCall(call.task, list(call.args), dict(call.kwargs), call.raw))

    def read_answer(self, body: Body) -> Answer:
        """Decode a result."""
        answer = _read(_ANSWERS, body)
        fault = Fault(FaultCode(answer.fault), answer.message) if answer.fault else None
        return Answer(answer.value, answer.raw, fault)

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result."""
        fault = answer.fault
        return _write(
            _LocalAnswer(
                answer.value,
                answer.raw,
                fault.code.value if fault else "",
                fault.message if fault else "",
            )
        )


def _read(decoder: "msgspec.msgpack.Decoder[Any]", body: Body) -> Any:
    try:
        return decoder.decode(body.parts[0])
    except (msgspec.MsgspecError, IndexError) as error:
        raise Unmappable(f"not a body of the local dialect: {error}") from None


def _write(content: msgspec.Struct) -> Body:
    try:
        return Body(NAME, (msgspec.msgpack.encode(content),))
    except (TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise Unmappable(f"the local dialect cannot carry this: {error}") from None
