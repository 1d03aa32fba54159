"""Content in parts and back, without a dialect around them."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import parts
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode


def test_a_call_is_the_task_and_its_packed_arguments() -> None:
    written = parts.call_parts(Call("add", (2,), {"y": 3}))
    assert written == (b"add", msgpack.packb([[2], {"y": 3}]))
    assert parts.read_call(written) == Call("add", (2,), {"y": 3})


def test_one_part_is_a_raw_request_and_several_are_arguments() -> None:
    assert parts.read_call((b"x",)) == Call(raw=b"x")
    assert parts.read_call(()) == Call(raw=b"")
    assert parts.read_call((b"a", b"b", b"c")) == Call(args=(b"a", b"b", b"c"))


@given(st.lists(st.binary(), max_size=4))
def test_any_parts_are_a_request_and_a_result(found: list[bytes]) -> None:
    assert isinstance(parts.read_call(tuple(found)), Call)
    assert isinstance(parts.read_answer(tuple(found)), Answer)


def test_a_fault_reads_back_and_an_unpackable_value_is_unmappable() -> None:
    fault = Answer(fault=Fault(FaultCode.TASK_FAILED, "out of paper"))
    assert parts.read_answer(parts.answer_parts(fault)) == fault
    with pytest.raises(Unmappable):
        parts.answer_parts(Answer(2**70))
