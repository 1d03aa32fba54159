"""The dispatcher: sequence numbers, subjects, replies, resending."""

import pytest

from dragoman.core.effects import RecoveredWork, SendPoll, SendWork
from dragoman.dialects.base import Send
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.dispatcher import Dispatcher
from dragoman.dialects.ncl.executions import Executions, execution_id
from dragoman.dialects.ncl.log_follower import LogFollower
from dragoman.dialects.ncl.messages import NAMES
from dragoman.dialects.ncl.models import BID_ACCEPTED, CANCELLED, NEW, NodeInfo
from dragoman.dialects.ncl.nodes import Node
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.model.body import Body
from dragoman.model.content import Call, Unmappable
from dragoman.model.names import JobId, PeerId, ServiceName

PEER, NOW = PeerId("ncl/n-1"), 1_700_000_000.0


class Stage:
    def __init__(self) -> None:
        self.executions = Executions(10)
        settings = OrchestratorSettings(follow_logs=False)
        following = LogFollower("tok", self.executions)
        codecs = {"ncl": NclBodyCodec()}
        self.dispatcher = Dispatcher("_INBOX.t", codecs, settings, self.executions, following)
        self.node = Node("ncl", NodeInfo("n-1", "Compute"), settings)
        self.node.connect(0, "", NOW)

    def start(self, job: str = "j1", seq: int = 10, target: str = "any") -> None:
        self.dispatcher.start(self.node, work(job, seq, target), NOW)

    def live(self, job: str = "j1") -> int:
        return self.executions.live[execution_id(job, PEER, 1)].state

    def leave(self) -> list[tuple[str, int]]:
        """Return the types and numbers of the messages that are sent now."""
        found = []
        for send in self.dispatcher.pending_sends(self.node, NOW):
            assert isinstance(send, Send)
            message = wire.decode(send.frames[0])
            found.append((NAMES[type(message.payload)], message.seq))
        return found


def work(job: str = "j1", seq: int = 10, target: str = "any") -> SendWork:
    body = NclBodyCodec().write_call(Call("t"))
    client = PeerId("test/c")
    return SendWork(PEER, JobId(job), 1, ServiceName("math"), client, body, seq=seq, target=target)


def poll(job: str = "j1") -> SendPoll:
    return SendPoll(PEER, JobId(job), 1, PeerId("test/c"))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_numbers_are_the_ledger_s_and_rise(stage: Stage) -> None:
    stage.start("j1", 10)
    stage.start("j2", 10)
    stage.start("j3", 25)
    assert [seq for _, seq in stage.leave()] == [10, 11, 25]
    assert stage.dispatcher.newest_seq == 25


def test_a_message_names_where_it_goes_and_where_its_ack_goes(stage: Stage) -> None:
    stage.start()
    (send,) = stage.dispatcher.pending_sends(stage.node, NOW)
    assert isinstance(send, Send)
    assert send.is_strict
    assert send.address == b"bacalhau.global.compute.n-1.in.msgs"
    assert send.frames[2] == b"_INBOX.t.1-10-n-1"
    message = wire.decode(send.frames[0])
    assert message.metadata[wire.SUBJECT] == send.address.decode()
    assert message.metadata[wire.MESSAGE_ID] == "seq-10"
    assert message.source == "orchestrator-n-1"


def test_the_same_dispatch_again_is_the_same_execution(stage: Stage) -> None:
    stage.start()
    stage.start()
    assert len(stage.leave()) == 1


def test_a_taken_bid_and_a_stop_follow_the_ask(stage: Stage) -> None:
    stage.start()
    (execution,) = stage.executions.live.values()
    stage.dispatcher.accept(stage.node, execution)
    stage.dispatcher.stop(stage.node, execution, 30)
    assert stage.leave() == [("AskForBid", 10), ("BidAccepted", 11), ("CancelExecution", 30)]
    assert execution.state == CANCELLED


def test_what_was_not_taken_yet_is_rejected(stage: Stage) -> None:
    stage.start()
    assert stage.live() == NEW
    (execution,) = stage.executions.live.values()
    stage.dispatcher.stop(stage.node, execution)
    assert [name for name, _ in stage.leave()] == ["AskForBid", "BidRejected"]


def test_work_for_all_needs_no_bid(stage: Stage) -> None:
    stage.start(target="all")
    assert stage.live() == BID_ACCEPTED


def test_a_claim_sends_only_what_the_node_may_have_lost(stage: Stage) -> None:
    stage.start("j1", 10)
    stage.start("j2", 20)
    stage.leave()
    stage.node.publisher.ack(10)
    stage.node.publisher.ack(20)
    # It reports a lower position than it acked: it lost what came after 10.
    stage.node.connect(10, "", NOW)
    assert stage.dispatcher.claim(stage.node, poll("j1"))
    assert stage.dispatcher.claim(stage.node, poll("j2"))
    assert stage.leave() == [("AskForBid", 21)]


def test_a_claim_sends_all_that_followed_what_may_be_lost(stage: Stage) -> None:
    stage.start()
    (execution,) = stage.executions.live.values()
    stage.dispatcher.accept(stage.node, execution)
    stage.leave()
    stage.node.publisher.ack(10)
    # A new process lost the ask, and the accepted bid needs the ask.
    stage.node.connect(10, "another", NOW)
    assert stage.dispatcher.claim(stage.node, poll())
    assert stage.leave() == [("BidAccepted", 11), ("AskForBid", 12), ("BidAccepted", 13)]


def test_a_claim_does_not_double_what_waits_anyway(stage: Stage) -> None:
    stage.start()
    stage.leave()
    stage.node.connect(0, "", NOW)
    assert stage.dispatcher.claim(stage.node, poll())
    assert stage.leave() == [("AskForBid", 10)]


def test_a_claim_of_nothing_known_stops_it_on_the_node(stage: Stage) -> None:
    assert not stage.dispatcher.claim(stage.node, poll("other"))
    assert [name for name, _ in stage.leave()] == ["CancelExecution"]


def test_what_was_out_before_a_restart_is_sent_again_when_claimed(stage: Stage) -> None:
    stage.dispatcher.restore(RecoveredWork(work(seq=10), NOW, accept_seq=12))
    assert stage.live() == BID_ACCEPTED
    assert stage.leave() == []
    stage.node.connect(50, "", NOW)
    assert stage.dispatcher.claim(stage.node, poll())
    assert stage.leave() == [("AskForBid", 51), ("BidAccepted", 52)]
    assert stage.dispatcher.claim(stage.node, poll())
    assert stage.leave() == []


def test_what_has_no_form_is_refused(stage: Stage) -> None:
    for body in (Body("ncl", (b"[]",)), Body("ncl"), Body("zzz", (b"",))):
        with pytest.raises(Unmappable):
            stage.dispatcher.params(body)
    with pytest.raises(Unmappable, match="exceed max_payload of NATS"):
        stage.dispatcher.params(Body("ncl", (b"x" * 2**20,)))


def test_what_was_out_and_has_no_form_is_left_out(stage: Stage) -> None:
    lost = SendWork(PEER, JobId("j"), 1, ServiceName("s"), PeerId("test/c"), Body("ncl", (b"[]",)))
    stage.dispatcher.restore(RecoveredWork(lost, NOW))
    assert stage.executions.live == {}
