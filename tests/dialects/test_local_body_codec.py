"""Bodies of the local dialect."""

import pytest

from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

CODEC = LocalBodyCodec()


@pytest.mark.parametrize(
    "call",
    [Call("add", (1, None, [2.5, "x"]), {"a": b"bytes", "b": {"c": True}}), Call(raw=b"\0raw")],
)
def test_calls_read_back(call: Call) -> None:
    assert CODEC.read_call(CODEC.write_call(call)) == call


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"a": [1, 2]}),
        Answer(raw=b"x"),
        Answer(fault=Fault(FaultCode.TASK_FAILED, "why")),
    ],
)
def test_answers_read_back(answer: Answer) -> None:
    assert CODEC.read_answer(CODEC.write_answer(answer)) == answer


@pytest.mark.parametrize("body", [Body("local"), Body("local", (b"\xff",))])
def test_what_is_no_content_is_unmappable(body: Body) -> None:
    with pytest.raises(Unmappable):
        CODEC.read_call(body)
    with pytest.raises(Unmappable):
        CODEC.read_answer(body)


def test_what_cannot_be_written_is_unmappable() -> None:
    with pytest.raises(Unmappable, match="local"):
        CODEC.write_answer(Answer(object()))
