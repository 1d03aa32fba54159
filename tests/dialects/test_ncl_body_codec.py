"""The NCL body codec: calls as engine parameters, answers as run results, refusals."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.ncl_vectors import body

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import (
    OUTPUT_LIMIT,
    NclBodyCodec,
    Printed,
    answer_of,
    params_of,
    result_of,
)
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.messages import RunResult
from dragoman.dialects.ncl.models import CommandResult
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

CODEC = NclBodyCodec()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=10,
)


@given(st.text(), st.lists(VALUES, max_size=3), st.dictionaries(st.text(max_size=6), VALUES))
def test_calls_survive_a_round_trip(task: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    call = Call(task, tuple(args), kwargs)
    assert CODEC.read_call(CODEC.write_call(call)) == call


@given(VALUES)
def test_values_survive_a_round_trip(value: Any) -> None:
    assert CODEC.read_answer(CODEC.write_answer(Answer(value=value))).value == value


def test_a_raw_request_keeps_the_task_it_names() -> None:
    body = CODEC.write_call(Call("resize", raw=b"png"))
    assert CODEC.read_call(body) == Call("resize", (b"png",))


@given(st.binary(max_size=5000))
def test_raw_bytes_survive_a_round_trip(raw: bytes) -> None:
    assert CODEC.read_call(CODEC.write_call(Call(raw=raw))).raw == raw
    assert CODEC.read_answer(CODEC.write_answer(Answer(raw=raw))).raw == raw


def test_a_fault_survives_a_round_trip() -> None:
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    assert CODEC.read_answer(CODEC.write_answer(Answer(fault=fault))).fault == fault


def test_headers_and_timeout_survive() -> None:
    call = Call("t", headers={"a": "b"}, timeout=2.5)
    assert CODEC.read_call(CODEC.write_call(call)) == call


def test_a_call_without_a_task_is_the_engine_s_own_parameters() -> None:
    spec = {"Image": "ubuntu:24.04", "Entrypoint": ["/bin/bash"]}
    assert params_of(Call(kwargs=spec)) == spec
    assert CODEC.read_call(CODEC.write_call(Call(kwargs=spec))).kwargs == spec


def test_parameters_that_look_like_a_call_are_kept_apart() -> None:
    call = Call(kwargs={"task": "x"})
    assert params_of(call) == {"task": "", "args": [], "kwargs": {"task": "x"}}
    assert CODEC.read_call(CODEC.write_call(call)) == call
    raw = Call(kwargs={"raw": "x"})
    assert CODEC.read_call(CODEC.write_call(raw)) == raw


def test_the_result_of_a_real_node_is_what_its_command_left() -> None:
    result = wire.decode(body("data.runresult")).payload
    assert isinstance(result, RunResult)
    assert answer_of(result).value == {
        "stdout": "hello\n",
        "stderr": "",
        "exit_code": 0,
        "truncated": False,
        "published": {
            "type": "local",
            "params": {"URL": "http://192.0.2.10:6001/e-0c9a2f33.tar.gz"},
        },
    }


def test_a_command_that_exits_non_zero_has_failed() -> None:
    result = wire.decode(body("data.runresult.nopublisher")).payload
    assert isinstance(result, RunResult)
    assert answer_of(result).fault == Fault(FaultCode.TASK_FAILED, "exit 3")


def test_the_output_for_people_is_cut_and_says_so() -> None:
    output = result_of(Answer(value="x" * 5000)).RunCommandResult
    assert output is not None
    assert (len(output.Stdout), output.StdoutTruncated) == (OUTPUT_LIMIT, True)


@pytest.mark.parametrize("value", [[float("nan")], float("inf"), {1: 2}, {"s": {1, 2}}, object()])
def test_what_json_cannot_hold_is_refused_and_not_altered(value: Any) -> None:
    with pytest.raises(Unmappable):
        CODEC.write_answer(Answer(value=value))
    with pytest.raises(Unmappable):
        CODEC.write_call(Call("t", (value,)))


def test_bytes_cross_at_any_depth() -> None:
    value = {"a": [b"\x00", {"b": b"x"}]}
    assert CODEC.read_answer(CODEC.write_answer(Answer(value))).value == value
    assert CODEC.read_call(CODEC.write_call(Call("t", (value,), {"k": b"x"}))) == Call(
        "t", (value,), {"k": b"x"}
    )


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b'{"raw":"?"}', b'{"task":1}'])
def test_a_body_that_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(Unmappable):
        CODEC.read_call(Body("ncl", (text,)))


@pytest.mark.parametrize("parts", [(), (b"[]",), (b'{"PublishResult":1}',)])
def test_a_body_that_is_no_result_is_refused(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(Unmappable):
        CODEC.read_answer(Body("ncl", parts))


def test_an_unknown_fault_code_is_a_failed_task() -> None:
    text = b'{"PublishResult":{"Type":"dragoman","Params":{"fault":["?"],"message":"m"}}}'
    found = CODEC.read_answer(Body("ncl", (text,))).fault
    assert found == Fault(FaultCode.TASK_FAILED, "m")


def test_a_result_is_readable_json() -> None:
    result = result_of(Answer(value=5))
    assert b'"Params":{"value":5}' in dump(result)
    assert result.RunCommandResult is not None
    assert result.RunCommandResult.Stdout == "5"


def test_stdout_is_what_was_printed_and_then_the_value() -> None:
    printed = Printed()
    printed.add("hello\n", False)
    printed.add("oh\n", True)
    output = result_of(Answer(value=5), printed).RunCommandResult
    assert output == CommandResult(Stdout="hello\n5", stderr="oh\n")
    assert result_of(Answer(), printed).RunCommandResult == CommandResult("hello\n", stderr="oh\n")
    assert result_of(Answer()).RunCommandResult == CommandResult("null")


def test_output_beyond_the_limit_is_marked_as_truncated() -> None:
    printed = Printed()
    for _ in range(3):
        printed.add("x" * 1000, True)
    output = result_of(Answer(value=1), printed).RunCommandResult
    assert output is not None
    assert (len(output.stderr), output.StderrTruncated) == (2048, True)
    assert (output.Stdout, output.StdoutTruncated) == ("1", False)
