"""Content: calls and answers hold a value or bytes, and share no defaults."""

from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode


def test_a_call_is_a_task_with_arguments_unless_it_is_raw() -> None:
    call = Call("add", (2,), {"y": 3})
    assert (call.task, call.args, call.kwargs, call.raw) == ("add", (2,), {"y": 3}, None)
    assert Call(raw=b"").raw == b""


def test_two_calls_do_not_share_their_arguments() -> None:
    one, other = Call("a"), Call("a")
    assert one == other
    assert one.kwargs is not other.kwargs
    assert one.headers is not other.headers


def test_an_answer_of_nothing_differs_from_an_answer_of_no_bytes_and_from_a_fault() -> None:
    answers = [Answer(), Answer(raw=b""), Answer(fault=Fault(FaultCode.TASK_FAILED)), Answer(0)]
    assert all(one != other for one in answers for other in answers if one is not other)
