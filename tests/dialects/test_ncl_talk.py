"""Orchestrator and compute nodes with the real broker between them, on the wire."""

import pytest
from tests.dialects.ncl_fabric import CLIENT, Crossing, Fabric

from dragoman.core.effects import SendInput
from dragoman.core.events import JobSubmitted
from dragoman.core.why import Reason, why
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.client_side import NclClientSide
from dragoman.dialects.ncl.messages import AskForBid, BacError
from dragoman.dialects.ncl.models import RUN
from dragoman.dialects.ncl.settings import ComputeSettings, OrchestratorSettings
from dragoman.dialects.ncl.store import NodeStore
from dragoman.dialects.peer_sides import Unsupported
from dragoman.model.body import EMPTY
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName, peer_id
from dragoman.model.target import ALL, Labelled

NO_QUEUE = ComputeSettings(queue_capacity=0)


@pytest.fixture
def fabric() -> Fabric:
    return Fabric()


def test_a_job_is_bid_for_run_and_answered(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit("j1", "add", x=2, y=3)
    (work,) = node.works
    assert (work.call.task, dict(work.call.kwargs), work.job) == ("add", {"x": 2, "y": 3}, "j1")
    node.finish(work, Answer(value=5))
    assert fabric.value() == 5
    assert fabric.kinds("j1") == ["submitted", "dispatched", "accepted", "ended"]
    order = [c.type for c in fabric.traffic if c.type and "transport." not in c.type]
    assert order == ["AskForBid", "BidResult", "BidAccepted", "RunResult"]


def test_every_data_message_is_acked_and_none_is_refused(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    node.finish(node.works[0], Answer(value=1))
    asked = [c.reply for c in fabric.traffic if c.subject.endswith("msgs")]
    acks = {c.subject: c.body for c in fabric.traffic if c.subject in asked}
    assert len(asked) == 4
    assert acks == dict.fromkeys(asked, b"{}")


def test_a_failing_task_fails_the_job_with_its_message(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    node.finish(node.works[0], Answer(fault=Fault(FaultCode.TASK_FAILED, "boom")))
    final = fabric.final()
    assert final.state is JobState.FAILED
    assert final.fault == Fault(FaultCode.TASK_FAILED, "boom")


def test_raw_bytes_go_there_and_back(fabric: Fabric) -> None:
    node = fabric.add()
    body = NclBodyCodec().write_call(Call(raw=b"\x00\xff"))
    fabric.handle(JobSubmitted(JobId("j1"), CLIENT, ServiceName("math"), body))
    assert node.works[0].call.raw == b"\x00\xff"
    node.finish(node.works[0], Answer(raw=b"\x01"))
    assert NclBodyCodec().read_answer(fabric.final().body).raw == b"\x01"


def test_work_for_all_is_sent_as_ops_and_runs_without_a_bid(fabric: Fabric) -> None:
    nodes = [fabric.add("n-1"), fabric.add("n-2")]
    fabric.submit(target=ALL)
    assert [len(n.works) for n in nodes] == [1, 1]
    assert not fabric.sent("BidResult")
    ask = wire.decode(fabric.sent("AskForBid")[0].body).payload
    assert isinstance(ask, AskForBid)
    assert ask.Execution.Job is not None
    assert (ask.Execution.Job.Type, ask.Execution.DesiredState.StateType) == ("ops", RUN)
    for node in nodes:
        node.finish(node.works[0], Answer(value=node.side.name))
    assert fabric.final().state is JobState.SUCCEEDED


def test_without_bids_work_runs_at_once() -> None:
    fabric = Fabric(OrchestratorSettings(bids=False))
    node = fabric.add()
    fabric.submit()
    assert len(node.works) == 1
    assert not fabric.sent("BidResult")


def test_a_refused_bid_goes_to_the_next_node(fabric: Fabric) -> None:
    full = fabric.add("n-1", settings=NO_QUEUE)
    full.side.slots = 0
    fabric.submit()
    assert full.works == []
    assert fabric.kinds("j1") == ["submitted", "dispatched", "requeued"]
    other = fabric.add("n-2")
    assert [w.job for w in other.works] == ["j1"]


def test_the_reason_of_a_refusal_is_on_record(fabric: Fabric) -> None:
    fabric.add("n-1", settings=NO_QUEUE).side.slots = 0
    fabric.submit()
    (requeued,) = [r for r, _ in fabric.entries if r.kind == "requeued"]
    reason = "not enough capacity: the queue is full (0 slots, 0 places in the queue)"
    assert requeued.detail == f"bid refused: rejected bid: {reason}"
    found = why(fabric.broker.state, JobId("j1"))
    assert found.reason is Reason.REFUSED_BY_ALL
    assert "n-1" in found.words


def test_labels_place_work(fabric: Fabric) -> None:
    fabric.add("n-1", labels={"zone": "us"})
    eu = fabric.add("n-2", labels={"zone": "eu"})
    fabric.submit(target=Labelled("zone=eu"))
    assert len(eu.works) == 1


def test_slots_bound_what_a_node_is_given(fabric: Fabric) -> None:
    node = fabric.add(slots=2)
    for number in range(3):
        fabric.submit(f"j{number}")
    assert [w.job for w in node.works] == ["j0", "j1"]
    node.finish(node.works[0], Answer(value=0))
    assert [w.job for w in node.works] == ["j0", "j1", "j2"]


def test_a_cancelled_job_is_stopped_and_not_waited_for(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    fabric.cancel()
    assert [s.ticket for s in node.stops] == [node.works[0].ticket]
    assert fabric.final().state is JobState.CANCELLED
    node.finish(node.works[0], Answer(value=1))
    assert fabric.final().state is JobState.CANCELLED
    assert not fabric.sent("RunResult")


def test_a_cancel_before_the_bid_was_taken_rejects_the_bid(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.loses = lambda c: c.type == "BidResult"
    fabric.submit()
    fabric.cancel()
    assert len(fabric.sent("BidRejected")) == 1
    fabric.loses = lambda c: False
    fabric.wait(40)
    assert node.works == []
    assert fabric.side.executions.live == {}


def test_progress_crosses_as_log_lines(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    ticket = node.works[0].ticket
    node.send(node.side.progress(ticket, {"done": 1}))
    node.send(node.side.chunk(ticket, b"piece"))
    fabric.settle()
    found = [(r.kind.value, r.body) for r in fabric.replies if r.kind in ("progress", "chunk")]
    codec = NclBodyCodec()
    assert [kind for kind, _ in found] == ["progress", "chunk"]
    assert codec.read_answer(found[0][1]).value == {"done": 1}
    assert codec.read_answer(found[1][1]).raw == b"piece"


def test_what_is_too_large_for_nats_is_refused_with_a_reason(fabric: Fabric) -> None:
    fabric.add()
    fabric.submit(x="y" * (1024 * 1024))
    fault = fabric.final().fault
    assert fault is not None
    assert "exceed max_payload of NATS" in fault.message


def test_input_has_no_form_here(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    effect = SendInput(peer_id("ncl", "n-1"), JobId("j1"), CLIENT, EMPTY)
    with pytest.raises(Unmappable):
        fabric.side.render(effect, fabric.now)
    with pytest.raises(Unsupported):
        node.side.ask_input("t", "r", "q")
    with pytest.raises(Unsupported):
        node.side.publish("t", 1)
    with pytest.raises(Unsupported):
        node.side.forward("t", "other", Call())


# --- lost messages, silence, partitions ---------------------------------------------------------


def test_a_lost_ack_means_a_second_delivery_and_one_run(fabric: Fabric) -> None:
    node = fabric.add()
    lost: list[str] = []

    def loses_the_first_ack(crossing: Crossing) -> bool:
        is_first = crossing.body == b"{}" and crossing.source == "n-1" and not lost
        lost.extend(["ack"] * is_first)
        return is_first

    fabric.loses = loses_the_first_ack
    fabric.submit()
    assert len(fabric.sent("AskForBid")) == 1
    fabric.wait(50)
    assert lost == ["ack"]
    assert len(node.works) == 1
    node.finish(node.works[0], Answer(value=5))
    assert fabric.value() == 5


def test_a_message_lost_before_one_that_got_through_is_sent_again(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.loses = lambda c: c.type == "AskForBid"
    fabric.submit("j1")
    fabric.loses = lambda c: False
    fabric.submit("j2")
    assert [w.job for w in node.works] == ["j2"]
    fabric.wait(40)
    assert [w.job for w in node.works] == ["j2", "j1"]


def test_a_lost_result_is_sent_again_until_it_is_there(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    fabric.loses = lambda c: c.type == "RunResult"
    node.finish(node.works[0], Answer(value=7))
    assert not [r for r in fabric.replies if r.kind == "final"]
    fabric.loses = lambda c: False
    fabric.wait(50)
    assert fabric.value() == 7


def test_a_partition_of_three_minutes_loses_no_work(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    fabric.loses = lambda c: True
    fabric.wait(170)
    assert fabric.kinds()[-1] == "changed"
    assert "left" in fabric.kinds()
    node.finish(node.works[0], Answer(value=5))
    fabric.loses = lambda c: False
    fabric.wait(60)
    assert fabric.value() == 5
    assert len(node.works) == 1
    assert "requeued" not in fabric.kinds("j1")


def test_a_node_away_for_longer_loses_its_work_to_another_and_gets_a_cancel(fabric: Fabric) -> None:
    away = fabric.add("n-1")
    fabric.submit()
    cut = {"n-1"}
    fabric.loses = lambda c: c.source in cut or ".n-1." in c.subject
    other = fabric.add("n-2")
    fabric.wait(260)
    assert [w.job for w in other.works] == ["j1"]
    other.finish(other.works[0], Answer(value="other"))
    fabric.loses = lambda c: False
    fabric.wait(60)
    assert [s.ticket for s in away.stops] == [away.works[0].ticket]
    assert fabric.value() == "other"


def test_a_late_result_of_a_lost_node_is_recorded_and_not_applied(fabric: Fabric) -> None:
    away = fabric.add("n-1")
    fabric.submit()
    fabric.loses = lambda c: c.source == "n-1" or ".n-1." in c.subject
    other = fabric.add("n-2")
    fabric.wait(260)
    away.finish(away.works[0], Answer(value="late"))
    fabric.loses = lambda c: False
    fabric.wait(60)
    other.finish(other.works[0], Answer(value="other"))
    assert fabric.value() == "other"
    assert "late" in fabric.kinds("j1")


def test_a_silent_node_that_beats_again_is_asked_to_shake_hands(fabric: Fabric) -> None:
    fabric.add(settings=ComputeSettings(heartbeat_miss_factor=7))
    fabric.loses = lambda c: c.source == "n-1"
    fabric.wait(77)
    assert not fabric.side.nodes["n-1"].is_connected
    fabric.loses = lambda c: False
    fabric.wait(20)
    error = wire.decode(fabric.sent("BacError")[-1].body).payload
    assert isinstance(error, BacError)
    assert error.Code == "HandshakeRequired"
    assert fabric.side.nodes["n-1"].is_connected


def test_a_clean_goodbye_gives_the_work_to_others_at_once(fabric: Fabric) -> None:
    node = fabric.add("n-1")
    fabric.submit()
    other = fabric.add("n-2")
    del fabric.nodes["n-1"]
    node.send(node.side.leave())
    fabric.settle()
    assert [w.job for w in other.works] == ["j1"]
    assert fabric.side.nodes["n-1"].last_error == "graceful shutdown"


# --- restarts -----------------------------------------------------------------------------------


def test_a_broker_restart_in_mid_job_runs_nothing_twice(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    fabric.restart_broker()
    fabric.wait(20)
    assert fabric.side.nodes["n-1"].is_connected
    node.finish(node.works[0], Answer(value=5))
    assert fabric.value() == 5
    assert len(node.works) == 1
    assert fabric.kinds("j1").count("dispatched") == 1


def test_work_that_was_recorded_and_never_sent_is_sent_after_a_restart(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.loses = lambda c: c.type == "AskForBid"
    fabric.submit()
    fabric.loses = lambda c: False
    fabric.restart_broker()
    fabric.wait(20)
    assert len(node.works) == 1
    assert fabric.kinds("j1").count("dispatched") == 1


def test_an_accepted_bid_that_was_never_sent_is_sent_after_a_restart(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.loses = lambda c: c.type == "BidAccepted"
    fabric.submit()
    assert node.works == []
    fabric.loses = lambda c: False
    fabric.restart_broker()
    fabric.wait(20)
    assert len(node.works) == 1


def test_a_result_made_while_the_broker_was_down_arrives(fabric: Fabric) -> None:
    node = fabric.add()
    fabric.submit()
    fabric.is_broker_up = False
    node.finish(node.works[0], Answer(value=5))
    fabric.wait(20)
    fabric.is_broker_up = True
    fabric.restart_broker()
    fabric.wait(60)
    assert fabric.value() == 5
    assert fabric.kinds("j1").count("dispatched") == 1


def test_a_node_that_restarts_with_its_store_gives_its_batch_work_back(fabric: Fabric) -> None:
    lines: list[bytes] = []
    fabric.add(store=NodeStore(lines.append))
    fabric.submit()
    again = NodeStore(lines.append)
    assert again.load(list(lines)) == 0
    node = fabric.add(store=again)
    # It fails the interrupted work; the job is dispatched again as a second attempt.
    assert fabric.sent("ComputeError")
    fabric.wait(5)
    assert [w.job for w in node.works] == ["j1"]
    node.finish(node.works[0], Answer(value=5))
    assert fabric.value() == 5


def test_a_node_that_restarts_without_its_store_gets_its_work_again(fabric: Fabric) -> None:
    fabric.add()
    fabric.submit()
    node = fabric.add()
    assert [w.job for w in node.works] == ["j1"]
    assert fabric.kinds("j1").count("dispatched") == 1
    node.finish(node.works[0], Answer(value=5))
    assert fabric.value() == 5


def test_a_result_that_was_stored_and_not_sent_survives_a_node_restart(fabric: Fabric) -> None:
    lines: list[bytes] = []
    node = fabric.add(store=NodeStore(lines.append))
    fabric.submit()
    fabric.loses = lambda c: c.source == "n-1"
    node.finish(node.works[0], Answer(value=5))
    fabric.loses = lambda c: False
    again = NodeStore(lines.append)
    again.load(list(lines))
    fabric.add(store=again)
    assert fabric.value() == 5


def test_a_full_replay_of_everything_changes_nothing(fabric: Fabric) -> None:
    node = fabric.add()
    for number in range(3):
        fabric.submit(f"j{number}")
    for work in list(node.works):
        node.finish(work, Answer(value=1))
    for work in node.works[2:]:
        node.finish(work, Answer(value=1))
    before = [r.state for r in fabric.replies if r.kind == "final"]
    runs, records = len(node.works), len(fabric.entries)
    for crossing in [c for c in fabric.traffic if c.subject.endswith("msgs")]:
        fabric.publish(crossing.source, crossing.subject,
                       [crossing.body, crossing.headers, b"_INBOX.nobody.x"])  # fmt: skip
    fabric.settle()
    assert len(node.works) == runs
    assert [r.state for r in fabric.replies if r.kind == "final"] == before
    assert len(fabric.entries) == records


def test_there_is_no_client_role() -> None:
    side = NclClientSide()
    for call in (
        side.hello,
        lambda: side.ask(JobId("j")),
        lambda: side.cancel(JobId("j")),
        lambda: side.subscribe((), 0),
        lambda: side.receive([]),
        lambda: side.give_input(JobId("j"), "", None, ""),
    ):
        with pytest.raises(Unsupported, match="no client role"):
            call()
