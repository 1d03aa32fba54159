"""Content in DCP's data parts and back."""

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.dialects.dcp.body_codec import DcpBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

codec = DcpBodyCodec()
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary()
values = st.recursive(
    plain | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(st.characters(categories=["L", "N"])), st.lists(values, max_size=3))
def test_any_call_comes_back_as_it_went(task: str, args: list[object]) -> None:
    call = Call(task or "t", tuple(args), {"x": args})
    assert codec.read_call(codec.write_call(call)) == call


def test_a_call_is_task_and_arguments() -> None:
    body = codec.write_call(Call("add", (2,), {"y": 3}))
    assert body == Body("dcp", (b"", b"add", msgpack.packb([[2], {"y": 3}])))


def test_headers_travel_in_a_note() -> None:
    call = Call("add", (2,), headers={"traceparent": "00-ab-cd-01"})
    body = codec.write_call(call)
    assert body.parts[0] == b'dragoman:{"headers":{"traceparent":"00-ab-cd-01"}}'
    assert codec.read_call(body) == call


@pytest.mark.parametrize("note", [b'dragoman:{"headers":7}', b'dragoman:{"headers":{"a":1}}'])
def test_what_are_no_headers_does_not_count(note: bytes) -> None:
    body = codec.write_call(Call("add"))
    assert codec.read_call(Body("dcp", (note, *body.parts))) == Call("add")


def test_raw_requests_are_their_own_data_part() -> None:
    body = codec.write_call(Call(raw=b"\x82\x01"))
    assert body.parts == (b"", b"\x82\x01")
    assert codec.read_call(body) == Call(raw=b"\x82\x01")


def test_the_parts_of_a_dagbox_request_are_bytes_arguments() -> None:
    parts = (msgpack.packb({"key": "a", "lock": True}), msgpack.packb({"key": "b", "lock": True}))
    call = codec.read_call(Body("dcp", (b"rq", b"", *parts)))
    assert call == Call(args=parts)
    assert codec.write_call(call).parts == (b"", *parts)


def test_a_raw_request_keeps_the_task_it_names() -> None:
    body = codec.write_call(Call("resize", raw=b"png"))
    assert codec.read_call(body) == Call("resize", (b"png",))


@given(st.binary())
@example(b"7")
@example(b"\xa1x")
@example(b"")
def test_bytes_of_a_result_stay_bytes_even_if_they_could_be_messagepack(raw: bytes) -> None:
    told = codec.read_answer(codec.write_answer(Answer(raw=raw)))
    assert (told.value if told.raw is None else told.raw) == raw


def test_bytes_that_look_like_a_call_are_still_two_arguments() -> None:
    odd = Call(args=(b"add", msgpack.packb([[1], {}])))
    assert codec.read_call(codec.write_call(odd)) == odd


@pytest.mark.parametrize("value", [{1: "a", "1": "b"}, {None: 1, 2.5: {b"k": [{3: 4}]}}])
def test_keys_that_are_not_text_come_back_as_they_went(value: object) -> None:
    assert codec.read_answer(codec.write_answer(Answer(value))) == Answer(value)
    assert codec.read_answer(Body("dcp", (b"", msgpack.packb(value)))) == Answer(value)


@pytest.mark.parametrize("value", [{(1, 2): 3}, [{"a": ({(): 1},)}], {frozenset(): 1}])
def test_keys_without_a_form_are_refused_and_never_raw_bytes(value: object) -> None:
    with pytest.raises(Unmappable, match="map key"):
        codec.write_answer(Answer(value))
    with pytest.raises(Unmappable, match="map key"):
        codec.write_call(Call("add", (value,)))


def test_a_request_without_data_is_raw_and_empty() -> None:
    assert codec.read_call(Body("dcp", (b"m", b""))) == Call(raw=b"")


@given(values)
def test_any_value_comes_back_as_it_went(value: object) -> None:
    assert codec.read_answer(codec.write_answer(Answer(value))) == Answer(value)


def test_bytes_that_are_no_messagepack_are_a_raw_answer() -> None:
    assert codec.read_answer(Body("dcp", (b"", b"hello"))) == Answer(raw=b"hello")
    assert codec.write_answer(Answer(raw=b"hello")).parts == (b"", b"hello")


def test_answers_in_several_parts_are_a_list_in_the_same_positions() -> None:
    body = Body("dcp", (b"rq", b"", b"\xc3", b"\xc3", b"\xc2"))
    assert codec.read_answer(body) == Answer([True, True, False])


def test_an_answer_without_data_is_none() -> None:
    assert codec.read_answer(Body("dcp", (b"rq", b""))) == Answer(None)


def test_a_fault_comes_back_as_it_went() -> None:
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    assert codec.read_answer(codec.write_answer(Answer(fault=fault))) == Answer(fault=fault)


def test_what_messagepack_cannot_hold_is_unmappable() -> None:
    for value in (object(), 2**70, {1j: 1}):
        with pytest.raises(Unmappable, match="MessagePack"):
            codec.write_answer(Answer(value))


def test_an_extension_type_is_not_read_as_content() -> None:
    part = msgpack.packb([msgpack.ExtType(5, b"x")])
    assert codec.read_answer(Body("dcp", (b"", part))) == Answer(raw=part)


def test_a_body_that_is_none_of_ours_is_unmappable() -> None:
    with pytest.raises(Unmappable, match="delimiter"):
        codec.read_call(Body("dcp", (b"x",)))


@given(st.lists(st.binary(max_size=12), max_size=4))
def test_any_data_parts_can_be_read(parts: list[bytes]) -> None:
    body = Body("dcp", (b"", *parts))
    assert isinstance(codec.read_call(body), Call)
    assert isinstance(codec.read_answer(body), Answer)
