"""Calls, values, faults and raw bytes as memo01 payloads."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.memo01.body_codec import (
    FAULT,
    TAG,
    MemoBodyCodec,
    as_value,
    fault_in,
    untagged,
    write_fault,
)
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

CODEC = MemoBodyCodec()


def memo(payload: bytes) -> Body:
    return Body("memo", (payload,))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.text(), st.lists(plain, max_size=3), st.dictionaries(st.text(), plain, max_size=3))
def test_a_call_comes_back_as_it_was(task: str, args: list[Any], kwargs: dict[str, Any]) -> None:
    call = Call(task, tuple(args), kwargs)
    assert CODEC.read_call(CODEC.write_call(call)) == call


@given(plain)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert CODEC.read_answer(CODEC.write_answer(Answer(value=value))) == Answer(value=value)


def test_a_raw_request_keeps_the_task_it_names() -> None:
    body = CODEC.write_call(Call("resize", raw=b"png"))
    assert CODEC.read_call(body) == Call("resize", (b"png",))


@given(st.binary() | st.binary().map(lambda raw: TAG + raw))
def test_raw_bytes_come_back_as_they_were_even_if_they_look_dressed(raw: bytes) -> None:
    assert CODEC.read_answer(CODEC.write_answer(Answer(raw=raw))) == Answer(raw=raw)
    assert CODEC.read_call(CODEC.write_call(Call(raw=raw))) == Call(raw=raw)


def test_a_call_is_deterministic_cbor_behind_the_self_describe_tag() -> None:
    body = CODEC.write_call(Call("add", (1,), {"y": 2}))
    assert body == memo(bytes.fromhex("d9d9f7a36461726773810164" + b"task".hex() + "63616464"
                                      + "666b7761726773a1617902"))  # fmt: skip
    # Behind the tag cbor2 reads immutable values, so a reader of its kind takes the tag off first.
    assert cbor2.loads(body.parts[0][3:]) == {"task": "add", "args": [1], "kwargs": {"y": 2}}


def test_headers_travel_with_a_call_when_there_are_any() -> None:
    call = Call("t", headers={"trace": "1"})
    assert CODEC.read_call(CODEC.write_call(call)) == call


def test_a_bare_map_with_a_task_is_a_call_too() -> None:
    said = cbor2.dumps({"task": "add", "kwargs": {"x": 1}})
    assert CODEC.read_call(memo(said)) == Call("add", (), {"x": 1})


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"hello",
        b"\x05",
        cbor2.dumps({"src": b"", "tgt": b""}),
        cbor2.dumps({"task": 1}),
        cbor2.dumps({"task": "a", "other": 1}),
        cbor2.dumps({"task": "a", "args": 5}),
        cbor2.dumps({"task": "a", "args": [cbor2.CBORTag(4000, 1)]}),
        cbor2.dumps({"task": "a"}) + b"more",
        cbor2.dumps(["task"]),
        cbor2.dumps(cbor2.CBORTag(24, b"x")),
        b"\xa1" * 1000,
    ],
)
def test_any_other_payload_is_a_raw_request(payload: bytes) -> None:
    assert CODEC.read_call(memo(payload)) == Call(raw=payload)


@pytest.mark.parametrize("payload", [b"", b"hello", b"\x05", cbor2.dumps([0, {}])])
def test_an_untagged_result_is_raw(payload: bytes) -> None:
    assert CODEC.read_answer(memo(payload)) == Answer(raw=payload)


@pytest.mark.parametrize(
    "said",
    [
        5,
        {"task": 5},
        {"task": "a", "args": 5},
        {"task": "a", "kwargs": []},
        {"task": "a", "headers": {"x": 1}},
        {"task": "a", "kwargs": {1: 2}},
        {"task": "a", "args": [cbor2.CBORTag(4000, 1)]},
        cbor2.CBORTag(4000, 1),
    ],
)
def test_a_tagged_request_that_is_no_call_has_no_meaning(said: Any) -> None:
    with pytest.raises(Unmappable):
        CODEC.read_call(memo(TAG + cbor2.dumps(said)))


@pytest.mark.parametrize(
    "payload",
    [
        TAG,
        TAG + b"\x81",
        TAG + b"\x01\x02",
        TAG + b"\x81" * 20_000 + b"\0",
        TAG + cbor2.dumps({1: 2}),
        TAG + b"\xf7",
        TAG + cbor2.dumps(cbor2.CBORTag(24, 1)),
        FAULT,
    ],
)
def test_a_tagged_result_that_is_no_plain_value_has_no_meaning(payload: bytes) -> None:
    with pytest.raises(Unmappable):
        CODEC.read_answer(memo(payload))


@pytest.mark.parametrize("value", [object(), {1, 2}.__iter__(), "\ud800"])
def test_a_value_that_cbor_does_not_know_has_no_form(value: object) -> None:
    with pytest.raises(Unmappable):
        CODEC.write_answer(Answer(value=value))


def test_a_fault_has_no_form_as_an_answer() -> None:
    with pytest.raises(Unmappable, match="task_failed"):
        CODEC.write_answer(Answer(fault=Fault(FaultCode.TASK_FAILED, "no")))


@pytest.mark.parametrize("code", list(FaultCode))
def test_our_workers_tell_faults_in_a_form_of_our_own(code: FaultCode) -> None:
    fault = Fault(code, "boom")
    assert write_fault(fault).startswith(FAULT)
    assert fault_in(write_fault(fault)) == fault
    assert CODEC.read_answer(memo(write_fault(fault))) == Answer(fault=fault)


@pytest.mark.parametrize(
    "said",
    [
        {"fault": "unheard_of", "message": ""},
        {"fault": [], "message": ""},
        {"fault": "denied", "message": 5},
        {"fault": "denied", "n": 5},
        {"fault": "denied"},
    ],
)
def test_what_only_resembles_a_fault_is_a_value(said: dict[str, Any]) -> None:
    payload = TAG + cbor2.dumps(said, canonical=True)
    assert fault_in(payload) is None
    assert CODEC.read_answer(memo(payload)) == Answer(value=said)


def test_an_answer_to_a_dressed_call_is_a_value_when_it_is_cbor() -> None:
    assert as_value(cbor2.dumps(5)) == TAG + cbor2.dumps(5)
    assert as_value(cbor2.dumps(None)) == TAG + cbor2.dumps(None)
    assert as_value(TAG + cbor2.dumps(5)) == TAG + cbor2.dumps(5)
    assert as_value(b"hello") == b"hello"
    assert as_value(b"") == b""


def test_the_tag_can_be_left_out_for_those_who_do_not_know_it() -> None:
    assert untagged(TAG + b"\5") == b"\5"
    assert untagged(b"\5") == b"\5"


@given(st.binary(max_size=40), st.booleans())
def test_any_payload_is_content_or_unmappable(raw: bytes, is_tagged: bool) -> None:
    body = memo(TAG + raw if is_tagged else raw)
    for read in (CODEC.read_call, CODEC.read_answer):
        try:
            read(body)
        except Unmappable:
            assert body.parts[0].startswith(TAG)
