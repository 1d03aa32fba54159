"""Content in MDP bodies and back."""

import msgpack

from dragoman.dialects.mdp.body_codec import MdpBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode

codec = MdpBodyCodec()


def test_a_call_is_two_frames() -> None:
    body = codec.write_call(Call("add", (2,), {"y": 3}))
    assert body == Body("mdp", (b"add", msgpack.packb([[2], {"y": 3}])))
    assert codec.read_call(body) == Call("add", (2,), {"y": 3})


def test_the_frames_of_a_plain_request_are_raw_or_arguments() -> None:
    assert codec.read_call(Body("mdp", (b"Hello world",))) == Call(raw=b"Hello world")
    assert codec.read_call(Body("mdp", (b"1", b"2", b"3"))) == Call(args=(b"1", b"2", b"3"))


def test_results_and_faults_read_back() -> None:
    fault = Fault(FaultCode.TASK_FAILED, "out of paper")
    for answer in (Answer({"a": [1, None]}), Answer(raw=b"\xc1"), Answer(fault=fault)):
        assert codec.read_answer(codec.write_answer(answer)) == answer
