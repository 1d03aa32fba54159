"""Results of nodes: applied once, recorded if invalid, never refused."""

from tests.dialects.ncl_orchestrator import DATA, NOW, connected, noted_in, say

from dragoman.core.effects import SendWork
from dragoman.core.events import ReplyReceived
from dragoman.dialects.base import Send
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.messages import AskForBid, BidResult, RunResult
from dragoman.model.content import Call
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind


def test_a_message_of_the_other_direction_is_recorded_and_acked() -> None:
    outputs = say(connected(), DATA, AskForBid())
    assert "not a data message of a compute node" in noted_in(outputs).detail


def test_a_result_of_an_execution_it_never_had_is_late() -> None:
    outputs = say(connected(), DATA, RunResult("e-other"))
    assert noted_in(outputs).kind is Kind.LATE


def test_a_bid_that_is_offered_again_is_accepted_again_and_reported_once() -> None:
    made = connected(follow_logs=False)
    call = NclBodyCodec().write_call(Call("t"))
    work = SendWork(PeerId("ncl/n-1"), JobId("j"), 1, ServiceName("math"), PeerId("t/c"), call)
    made.render(work, NOW)
    (name,) = made.executions.live
    bid = BidResult(name, "j", "batch", None, True)
    first, again = say(made, DATA, bid), say(made, DATA, bid)
    for outputs, news in ((first, 1), (again, 0)):
        assert len([t for t in outputs if isinstance(t, Send)]) == 2
        assert len([t for t in outputs if isinstance(t, ReplyReceived)]) == news
