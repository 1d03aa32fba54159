"""Content as HTTP peers have it, and back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.http.body_codec import HttpBodyCodec, code_of, members, question, write
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

CODEC = HttpBodyCodec()
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=3), st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_a_call_comes_back_as_it_was(args: list[object], kwargs: dict[str, object]) -> None:
    call = Call("t", tuple(args), kwargs, None, {"h": "1"}, 2.5)
    assert CODEC.read_call(CODEC.write_call(call)) == call


@given(VALUES)
def test_an_answer_comes_back_as_it_was(value: object) -> None:
    assert CODEC.read_answer(CODEC.write_answer(Answer(value, worker="w"))) == Answer(
        value, worker="w"
    )


def test_raw_bytes_travel_beside_the_json_and_unencoded() -> None:
    body = CODEC.write_call(Call("t", raw=b"\x00\xff"))
    assert body.parts[1] == b"\x00\xff"
    assert CODEC.read_call(body).raw == b"\x00\xff"
    assert CODEC.read_answer(CODEC.write_answer(Answer(raw=b""))).raw == b""


def test_a_fault_keeps_its_code_and_message() -> None:
    answer = Answer(fault=Fault(FaultCode.TASK_FAILED, "no"))
    assert CODEC.read_answer(CODEC.write_answer(answer)) == answer


def test_the_name_of_a_fault_that_nobody_knows_is_a_failed_task() -> None:
    assert code_of("who_knows") is FaultCode.TASK_FAILED


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, object(), 2**70 * 1.5e300 * 1e300])
def test_what_json_cannot_hold_is_refused_by_name(value: object) -> None:
    with pytest.raises(Unmappable):
        CODEC.write_answer(Answer(value))


def test_endless_nesting_is_refused_rather_than_followed() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Unmappable):
        CODEC.write_answer(Answer(deep))
    with pytest.raises(Unmappable):
        write(deep)


@pytest.mark.parametrize("blob", [b"", b"{", b"[]", b'{"args": 3}', b"\xff", b"[" * 100_000])
def test_a_damaged_body_is_unmappable_and_nothing_else(blob: bytes) -> None:
    for read in (CODEC.read_call, CODEC.read_answer):
        if blob == b'{"args": 3}' and read == CODEC.read_answer:
            continue
        with pytest.raises(Unmappable):
            read(Body("http", (blob,)))
        with pytest.raises(Unmappable):
            read(Body("http", ()))


def parsed(body: Body) -> object:
    return msgspec.json.decode(msgspec.json.encode(members(body)))


def test_a_question_has_a_name_and_peers_see_raw_bytes_as_such() -> None:
    assert parsed(question("q1", "name?")) == {"value": "name?", "request": "q1"}
    raw = CODEC.write_answer(Answer(raw=b"abc"))
    assert parsed(raw) == {"value": {"$bytes": "YWJj"}, "raw": True}
    assert members(EMPTY) == {}


@given(VALUES)
def test_members_are_passed_on_without_a_change(value: object) -> None:
    body = CODEC.write_answer(Answer(value, worker="w"))
    expected = msgspec.json.decode(body.parts[0])
    assert parsed(body) == expected
