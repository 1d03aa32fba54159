"""Content in ZSS's verb and payload, and back."""

import json
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import ZssBodyCodec
from dragoman.dialects.zss.wire import REQ, ZssMessage, body_of, decode, message_of, write_address
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

codec = ZssBodyCodec()
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
names = st.text(max_size=6)


@given(st.lists(values, max_size=3), st.dictionaries(names, values, max_size=3))
def test_any_arguments_come_back_as_they_went(
    args: list[object], kwargs: dict[str, object]
) -> None:
    call = Call("add", tuple(args), kwargs, None, {"token": "abc"}, 2.5)
    assert codec.read_call(codec.write_call(call)) == call


@pytest.mark.parametrize(
    ("args", "kwargs", "payload"),
    [
        ((), {}, None),
        ((), {"x": 2, "y": 3}, {"x": 2, "y": 3}),
        (("hi",), {}, "hi"),
        (([1, 2],), {}, [1, 2]),
        ((1, 2), {}, {"args": [1, 2], "kwargs": {}}),
        ((1,), {"y": 2}, {"args": [1], "kwargs": {"y": 2}}),
        (({"a": 1},), {}, {"args": [{"a": 1}], "kwargs": {}}),
        ((None,), {}, {"args": [None], "kwargs": {}}),
        ((), {"args": 1, "kwargs": 2}, {"args": [], "kwargs": {"args": 1, "kwargs": 2}}),
    ],
)
def test_arguments_are_one_payload(
    args: tuple[object, ...], kwargs: dict[str, object], payload: object
) -> None:
    message = message_of(codec.write_call(Call("add", args, kwargs)), REQ)
    assert oldpack.decode(message.payload) == payload
    assert codec.read_call(body_of(message)) == Call("add", args, kwargs)


def request(verb: str, payload: bytes) -> Body:
    return body_of(ZssMessage(REQ, b"r", write_address("MATH", verb), payload=payload))


def test_a_verb_in_capitals_was_written_so_by_a_library() -> None:
    assert codec.read_call(request("ADD", b"\xc4")) == Call("add")
    assert codec.read_call(request("getUser", b"\xc0")) == Call("getUser")


def test_raw_requests_have_a_verb_of_their_own() -> None:
    body = codec.write_call(Call(raw=b"\x00\xff"))
    assert codec.read_call(body) == Call(raw=b"\x00\xff")
    assert codec.read_call(request("ECHO", oldpack.encode(b"\xff"))) == Call("echo", (b"\xff",))


def test_a_map_whose_keys_are_not_text_is_one_argument() -> None:
    assert codec.read_call(request("e", msgpack.packb({1: 2}))) == Call("e", ({1: 2},))


@given(values)
def test_any_result_comes_back_as_it_went(value: object) -> None:
    assert codec.read_answer(codec.write_answer(Answer(value))) == Answer(value)


def test_bytes_are_a_raw_result() -> None:
    assert codec.read_answer(codec.write_answer(Answer(raw=b"\xff"))) == Answer(raw=b"\xff")


def test_a_fault_comes_back_by_name() -> None:
    fault = Fault(FaultCode.QUEUE_FULL, "too many")
    assert codec.read_answer(codec.write_answer(Answer(fault=fault))) == Answer(fault=fault)


def replies() -> list[tuple[str, Body]]:
    path = Path(__file__).parents[1] / "vectors/zss/vectors.json"
    found = []
    for vector in json.loads(path.read_text()):
        if vector["direction"] == "broker->client" and len(vector["frames_hex"]) == 7:
            message = decode([bytes.fromhex(f) for f in vector["frames_hex"]])
            found.append((vector["label"], body_of(message)))
    return found


@pytest.mark.parametrize(
    ("label", "body"), replies(), ids=lambda x: x if isinstance(x, str) else ""
)
def test_the_replies_of_real_peers_are_read(label: str, body: Body) -> None:
    answer = codec.read_answer(body)
    code = body.parts[4]
    assert (answer.fault is None) == (code.startswith(b"2"))


def test_a_conflict_of_a_real_service_keeps_its_words() -> None:
    body = next(body for label, body in replies() if "error contract -> 409" in label)
    fault = codec.read_answer(body).fault
    assert fault is not None
    assert fault.code is FaultCode.TASK_FAILED
    assert fault.message


def test_nothing_comes_back_as_nothing() -> None:
    body = body_of(ZssMessage(b"REP", b"r", b"", status=b"204", payload=b"\xc4"))
    assert codec.read_answer(body) == Answer(None)


@pytest.mark.parametrize(
    ("headers", "payload"), [(b"\x80", b"\xc1"), (b"\xc1", b"\xc0"), (b"\x80", b"\xa9short")]
)
def test_what_cannot_be_read_is_unmappable(headers: bytes, payload: bytes) -> None:
    body = body_of(ZssMessage(REQ, b"r", write_address("A", "b"), headers, payload=payload))
    with pytest.raises(Unmappable, match="ZSS"):
        codec.read_call(body)


def test_a_body_that_is_none_of_ours_is_unmappable() -> None:
    with pytest.raises(Unmappable, match="parts"):
        codec.read_answer(Body("zss", (b"x",)))
    with pytest.raises(Unmappable, match="address"):
        codec.read_call(body_of(ZssMessage(REQ, b"r", b"")))


def test_what_the_old_messagepack_cannot_hold_is_unmappable() -> None:
    with pytest.raises(Unmappable, match="exact"):
        codec.write_answer(Answer(2**60 + 1))


def test_only_text_headers_are_content() -> None:
    headers = oldpack.encode({"token": "abc", "micro.cs": 5.0, "n": None})
    body = body_of(ZssMessage(REQ, b"r", write_address("A", "b"), headers))
    assert codec.read_call(body).headers == {"token": "abc"}
    assert (
        codec.read_call(body_of(ZssMessage(REQ, b"r", write_address("A", "b"), b"\xc0"))).headers
        == {}
    )
