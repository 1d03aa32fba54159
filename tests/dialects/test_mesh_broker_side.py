"""Jobs that cross from broker to broker: under one id, once, with all that belongs to them."""

from typing import Any

import pytest
from tests.dialects.mesh_fabric import MeshFabric

from dragoman.core.effects import SendCancel, SendInput, SendPoll, SendReply, SendWork
from dragoman.core.events import InputReceived, JobCancelled, PeerLeft, ReplyKind
from dragoman.dialects.mesh import wire
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.terms import read_terms

CLIENT = PeerId("local/client")


def linked() -> MeshFabric:
    """Link west to east, where a worker offers math."""
    fabric = MeshFabric(("west", "east"))
    fabric["east"].worker()
    fabric.wait(1.0)
    return fabric


def crossing(**terms: Any) -> MeshFabric:
    """Have a job of west's client run at east."""
    fabric = linked()
    fabric["west"].submit(**terms)
    fabric.talk()
    return fabric


def test_a_job_keeps_its_id_and_is_on_record_in_both_ledgers() -> None:
    fabric = crossing()
    (work,) = fabric["east"].sent(SendWork)
    assert (work.job, work.service, work.task) == ("j1", "math", "add")
    assert work.body == Body("nfp", (b"question",))
    fabric["east"].reply()
    fabric.talk()
    (answer,) = fabric["west"].answers()
    assert (answer.state, answer.body) == (JobState.SUCCEEDED, Body("dcp", (b"said", b"final")))
    assert fabric["west"].kinds() == ["submitted", "dispatched", "accepted", "ended"]
    assert fabric["east"].kinds() == ["submitted", "dispatched", "ended"]


def test_the_record_says_where_a_job_came_from() -> None:
    fabric = crossing()
    record = next(r for r in fabric["east"].records if r.job == "j1")
    assert record.client == "mesh/west"
    assert read_terms(record.terms).path == ("west",)
    assert read_terms(record.terms).origin == "client local/client of broker west"


def test_progress_chunks_and_questions_reach_the_client() -> None:
    fabric = crossing()
    for kind in (ReplyKind.PROGRESS, ReplyKind.CHUNK, ReplyKind.INPUT_ASKED):
        fabric["east"].reply(kind=kind)
        fabric.talk()
        assert fabric["west"].sent(SendReply)[-1].kind is kind
        assert fabric["west"].sent(SendReply)[-1].body.parts == (b"said", kind.value.encode())


def test_input_reaches_the_worker() -> None:
    fabric = crossing()
    body = Body("nfp", (b"yes",))
    fabric["west"].tell(InputReceived(JobId("j1"), CLIENT, body))
    fabric.talk()
    (given,) = fabric["east"].sent(SendInput)
    assert (given.job, given.body) == ("j1", body)


def test_a_cancel_stops_the_worker_and_its_confirmation_comes_back() -> None:
    fabric = crossing()
    fabric["west"].tell(JobCancelled(JobId("j1"), CLIENT))
    fabric.talk()
    (cancel,) = fabric["east"].sent(SendCancel)
    assert cancel.job == "j1"
    fabric["east"].reply(fault=Fault(FaultCode.CANCELLED, "stopped"))
    fabric.talk()
    assert [a.state for a in fabric["west"].answers()] == [JobState.CANCELLED]


def test_the_next_broker_confirms_a_cancel_in_less_time_than_this_one_waits() -> None:
    fabric = crossing(cancel_grace=5.0)
    fabric["west"].tell(JobCancelled(JobId("j1"), CLIENT))
    fabric.talk()
    fabric.wait(4.6)
    (answer,) = fabric["west"].answers()
    assert answer.fault is not None
    assert answer.fault.code is FaultCode.CANCEL_UNCONFIRMED


def test_faults_cross_with_code_message_and_body() -> None:
    fabric = crossing()
    fabric["east"].reply(fault=Fault(FaultCode.TASK_FAILED, "ValueError: no"))
    fabric.talk()
    (answer,) = fabric["west"].answers()
    assert answer.fault == Fault(FaultCode.TASK_FAILED, "ValueError: no")
    assert answer.body.parts == (b"said", b"final")


def test_a_deadline_goes_on_and_does_not_start_anew() -> None:
    fabric = MeshFabric(("west", "east"))
    fabric.wait(1.0)
    fabric["west"].submit(timeout=60.0)
    submitted_at = fabric.now
    fabric.wait(20.0)
    fabric["east"].worker()
    fabric.wait(2.0)
    record = next(r for r in fabric["east"].records if r.kind == "submitted")
    assert record.deadline_at == submitted_at + 60.0
    fabric.wait(45.0)
    assert [a.state for a in fabric["west"].answers()] == [JobState.EXPIRED]


def test_a_job_that_cannot_cross_ends_with_the_reason() -> None:
    fabric = linked()
    effect = SendWork(
        PeerId("mesh/east/math"), JobId("j1"), 1, ServiceName("math"), CLIENT, Body(""), "a\nb"
    )
    with pytest.raises(Unmappable, match="cannot cross"):
        fabric["west"].side.render(effect, fabric.now)


def test_a_refusal_lets_the_job_go_elsewhere() -> None:
    fabric = linked()
    fabric["east"].broker.state.is_draining = True
    fabric["west"].submit()
    fabric["west"].worker("w9", "math")
    fabric.talk()
    (work,) = fabric["west"].sent(SendWork)
    assert work.worker == "local/w9"
    assert "requeued" in fabric["west"].kinds()


def test_a_broker_refuses_a_job_that_has_been_there() -> None:
    fabric = linked()
    neighbour = fabric["west"].side.neighbours["east"]
    terms = wire.write_terms(read_terms(""), None, ("east", "west"))
    work = wire.Work("j1", "math", "add", terms)
    fabric["west"].send([fabric["west"].side._to(neighbour, work)])
    fabric.talk()
    assert fabric["east"].kinds() == []
    assert fabric["west"].kinds() == ["late"]


def test_built_in_services_do_not_cross() -> None:
    fabric = linked()
    fabric["east"].worker("broker", "mmi.service.broker", is_builtin=True)
    fabric.wait(2.0)
    assert list(fabric["west"].services()) == ["math"]
    neighbour = fabric["west"].side.neighbours["east"]
    terms = wire.write_terms(read_terms(""), None, ("west",))
    fabric["west"].send(
        [fabric["west"].side._to(neighbour, wire.Work("j1", "mmi.service.broker", "", terms))]
    )
    fabric.talk()
    assert fabric["east"].kinds() == []


def test_a_client_reaches_a_service_two_links_away_and_the_path_is_on_record() -> None:
    fabric = MeshFabric(("a", "b"), ("c", "b"))
    fabric["c"].worker()
    fabric.wait(3.0)
    assert fabric["a"].services() == {"math": "b/math:2"}
    fabric["a"].submit()
    fabric.talk()
    fabric["c"].reply()
    fabric.talk()
    assert [a.state for a in fabric["a"].answers()] == [JobState.SUCCEEDED]
    assert read_terms(fabric["c"].records[-1].terms or fabric["c"].records[1].terms).path == (
        "a",
        "b",
    )


def test_in_a_ring_a_job_passes_no_broker_twice() -> None:
    fabric = MeshFabric(("a", "b"), ("b", "c"), ("c", "a"))
    fabric["c"].worker("w1", credit=1)
    fabric.wait(3.0)
    fabric["c"].submit("busy")
    fabric["a"].submit("j1")
    fabric.wait(3.0)
    for broker in fabric.brokers.values():
        assert broker.kinds("j1").count("submitted") <= 1
    fabric["c"].reply("busy")
    fabric["c"].reply("j1")
    fabric.wait(2.0)
    assert [a.state for a in fabric["a"].answers()] == [JobState.SUCCEEDED]


def test_a_result_that_was_lost_with_the_link_is_asked_for_when_it_is_back() -> None:
    fabric = crossing()
    fabric.cut.add(frozenset({"west", "east"}))
    fabric["east"].reply()
    fabric.wait(8.0)
    assert "left" in [r.kind for r in fabric["west"].records]
    fabric.cut.clear()
    fabric.wait(3.0)
    assert [a.state for a in fabric["west"].answers()] == [JobState.SUCCEEDED]
    assert fabric["east"].kinds().count("dispatched") == 1


def test_work_that_never_arrived_goes_elsewhere_when_the_link_is_back() -> None:
    fabric = linked()
    fabric.cut.add(frozenset({"west", "east"}))
    fabric["west"].submit()
    fabric.talk()
    fabric.cut.clear()
    fabric["west"].side.receive(b"east", [], fabric.now)
    fabric.wait(2.0)
    assert fabric["east"].kinds()[:2] == ["submitted", "dispatched"]
    assert fabric["west"].kinds().count("dispatched") == 2


def test_a_poll_does_not_overtake_work_that_waits_for_the_disk() -> None:
    fabric = linked()
    poll = SendPoll(PeerId("mesh/east/math"), JobId("j1"), 1, CLIENT)
    assert fabric["west"].side.render(poll, fabric.now) == []
    fabric["west"].submit()
    assert len(fabric["west"].side.render(poll, fabric.now)) == 1


def test_the_answer_to_an_old_poll_does_not_return_a_newer_attempt() -> None:
    fabric = crossing()
    old = wire.Reply("j1", "final", "handed_back", "east does not have the job", 7)
    east = fabric["east"].side
    fabric["east"].send([east._to(east.neighbours["west"], old)])
    fabric.talk()
    assert fabric["west"].kinds()[-1] == "late"
    fabric["east"].reply()
    fabric.talk()
    assert [a.state for a in fabric["west"].answers()] == [JobState.SUCCEEDED]


def test_a_job_that_was_cancelled_during_a_cut_is_stopped_afterwards() -> None:
    fabric = crossing()
    fabric.cut.add(frozenset({"west", "east"}))
    fabric.wait(8.0)
    fabric["west"].tell(JobCancelled(JobId("j1"), CLIENT))
    assert [a.state for a in fabric["west"].answers()] == [JobState.CANCELLED]
    fabric.cut.clear()
    fabric.wait(3.0)
    assert [c.job for c in fabric["east"].sent(SendCancel)] == ["j1"]


def test_a_job_that_another_worker_has_by_now_is_stopped_afterwards() -> None:
    fabric = crossing()
    fabric.cut.add(frozenset({"west", "east"}))
    fabric["west"].worker("w9", "math")
    fabric.wait(150.0)
    assert [w.worker for w in fabric["west"].sent(SendWork)] == ["local/w9"]
    fabric.cut.clear()
    fabric.wait(3.0)
    assert [c.job for c in fabric["east"].sent(SendCancel)] == ["j1"]


def test_a_restart_of_the_first_broker_does_not_run_the_job_again() -> None:
    fabric = crossing()
    fabric["west"].restart()
    fabric["east"].reply()
    fabric.wait(3.0)
    assert [a.state for a in fabric["west"].answers()] == [JobState.SUCCEEDED]
    assert fabric["east"].kinds().count("dispatched") == 1


def test_a_result_of_a_service_that_is_gone_counts_after_a_restart_of_the_first_broker() -> None:
    fabric = crossing()
    fabric["west"].restart()
    fabric["east"].reply()
    fabric["east"].tell(PeerLeft(PeerId("local/w1"), "left"))
    fabric.wait(3.0)
    assert [a.state for a in fabric["west"].answers()] == [JobState.SUCCEEDED]


def test_a_restart_of_the_next_broker_does_not_run_the_job_again() -> None:
    fabric = crossing()
    fabric["east"].restart()
    fabric["east"].worker()
    fabric.wait(3.0)
    fabric["east"].reply()
    fabric.wait(3.0)
    assert [a.state for a in fabric["west"].answers()] == [JobState.SUCCEEDED]
    assert fabric["east"].kinds().count("dispatched") == 1


def test_a_broker_tells_another_why_a_job_is_in_its_state() -> None:
    fabric = crossing()
    told: list[tuple[str, ...]] = []
    fabric["west"].side.told = lambda *answer: told.append(answer)
    question = fabric["west"].side.ask("east", "j1")
    assert question is not None
    fabric["west"].send([question])
    fabric.talk()
    ((broker, job, reason, words),) = told
    assert (broker, job, reason) == ("east", "j1", "running")
    assert "w1" in words
    assert fabric["west"].side.ask("south", "j1") is None
