"""Answers to GET and DELETE, for any client and at any time."""

import pytest
from tests.dialects.nfp_fabric import (
    NfpFabric,
    body_of,
    event,
    get,
    post,
    ready,
    response,
    result,
    told,
)

from dragoman.core.effects import JobStatus, PartStatus, RequestKind, SendStatus
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName

DELETE = wire.NfpRequest(wire.DELETE, b"math", b"all", b"j1", b"")


@pytest.fixture
def fabric() -> NfpFabric:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    return fabric


def test_a_running_job_is_pending_and_names_its_worker(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.heard("c1")
    fabric.say("c1", get(target='["w1"]'))
    listed, standing = fabric.heard("c1")
    assert told([listed, standing]) == [("RESPONSE", "202"), ("RESPONSE", "300")]
    assert body_of(standing) == {
        "worker": "w1",
        "uuid": "j1",
        "service": "math",
        "status": "STARTED",
    }


def test_a_queued_job_is_pending_without_a_worker_and_without_a_202() -> None:
    fabric = NfpFabric()
    fabric.say("c1", post())
    fabric.say("c1", get())
    (standing,) = fabric.heard("c1")
    assert body_of(standing)["status"] == "PENDING"
    assert body_of(standing)["worker"] is None


def test_a_job_whose_worker_is_away_is_pending_under_the_announced_name(
    fabric: NfpFabric,
) -> None:
    fabric.say("c1", post())
    fabric.say("w1", wire.NfpDisconnect(wire.WORKER, b"math", b'{"clean":true}'))
    fabric.heard("c1")
    fabric.say("c1", get(target='["w1"]'))
    assert told(fabric.heard("c1")) == [("RESPONSE", "202"), ("RESPONSE", "300")]


def test_an_unknown_job_is_404_to_norfab_and_400_to_the_text(fabric: NfpFabric) -> None:
    fabric.say("c1", get("nosuch"))
    assert told(fabric.heard("c1")) == [("RESPONSE", "404")]
    fabric.say("c1", wire.NfpRequest(wire.GET, b"math", b"", b"nosuch", b"", is_binary=True))
    assert told(fabric.heard("c1")) == [("RESPONSE", "400")]


def test_a_get_of_some_workers_is_answered_for_those(fabric: NfpFabric) -> None:
    fabric.say("w2", ready())
    fabric.say("c1", post(target="all"))
    fabric.say("w2", response("200", result(2, "w2")))
    fabric.heard("c1")
    fabric.say("c1", get(target='["w2"]'), get(target="all"))
    answers = fabric.heard("c1")
    assert told(answers) == [
        ("RESPONSE", "202"),
        ("RESPONSE", "200"),
        ("RESPONSE", "202"),
        ("RESPONSE", "300"),
        ("RESPONSE", "200"),
    ]
    assert body_of(answers[0])["target"] == '["w2"]'


def test_any_client_gets_any_result(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w1", response("200", result()))
    fabric.say("c2", get(target="w1"))
    assert body_of(fabric.heard("c2")[1]) == result()


def test_a_job_that_waits_for_input_is_102_with_the_question(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    question = {"id": "q1", "question": "go on?", "default": False}
    fabric.say("w1", event("input_request", extras={"input_request": question}))
    fabric.say("c2", get())
    waiting = fabric.heard("c2")[1]
    assert told([waiting]) == [("RESPONSE", "102")]
    assert body_of(waiting)["input_request"] == question


def test_a_cancel_of_a_queued_job_is_confirmed() -> None:
    fabric = NfpFabric()
    fabric.say("c1", post())
    fabric.say("c1", DELETE)
    said = fabric.heard("c1")
    assert told(said) == [("RESPONSE", "417"), ("RESPONSE", "200")]
    assert body_of(said[0])["code"] == "cancelled"
    assert body_of(said[1])["status"] == "CANCELLED"


def test_a_cancel_that_norfabs_worker_ignores_is_not_confirmed(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("c2", DELETE)
    assert [m.command for m in fabric.heard("w1") if isinstance(m, wire.NfpTask)][-1] == wire.DELETE
    assert body_of(fabric.heard("c2")[0])["status"] == "CANCEL_NOT_CONFIRMED"


def test_a_cancel_that_the_worker_confirms_says_so() -> None:
    fabric = NfpFabric()
    fabric.say("w1", wire.Open(wire.WORKER, b'{"can_cancel":true}'), ready())
    fabric.say("c1", post())
    fabric.say("c2", DELETE)
    assert fabric.heard("c2") == []
    fabric.say("w1", response("417", {"status": "CANCELLED"}))
    assert body_of(fabric.heard("c2")[0])["status"] == "CANCELLED"


def test_a_cancel_too_late_or_of_nothing_says_so(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w1", response("200", result()))
    fabric.say("c2", DELETE)
    (late,) = fabric.heard("c2")
    assert (body_of(late)["status"], body_of(late)["state"]) == ("ALREADY_FINISHED", "succeeded")
    fabric.say("c2", wire.NfpRequest(wire.DELETE, b"math", b"all", b"nosuch", b""))
    assert told(fabric.heard("c2")) == [("RESPONSE", "404")]


def test_refused_input_has_no_answer(fabric: NfpFabric) -> None:
    fabric.say("c1", wire.NfpRequest(wire.PUT, b"math", b"any", b"nosuch", b"{}"))
    assert fabric.heard("c1") == []


def status(
    state: JobState, *parts: PartStatus, fault: Fault | None = None, cancelling: bool = False
) -> JobStatus:
    return JobStatus(
        JobId("j1"),
        state,
        ServiceName("math"),
        PeerId("nfp/c1"),
        parts,
        fault,
        is_cancelling=cancelling,
    )


def answers(
    known: JobStatus | None,
    asked: RequestKind = RequestKind.RESULT,
    target: str = "all",
    fault: Fault | None = None,
) -> list[wire.Message]:
    """Render a status to a client that knows only the job id, as after a restart."""
    side = NfpBrokerSide("nfp")
    if asked is RequestKind.RESULT:
        side.receive(b"c1", wire.encode(get(target=target)), 1.0)
    effect = SendStatus(PeerId("nfp/c1"), JobId("j1"), asked, known, fault)
    return [wire.decode(send.frames) for send in side.render(effect, 1.0)]


def part(worker: str, state: JobState, body: bytes | None = None) -> PartStatus:
    part_body = Body("nfp", (body,)) if body is not None else None
    return PartStatus(WorkerName(worker), state, 1, seq=7 if body else 0, body=part_body)


def test_a_job_that_ended_without_a_result_is_an_error_status() -> None:
    fault = Fault(FaultCode.EXHAUSTED, "lost three times")
    known = status(JobState.DEAD, part("w1", JobState.DEAD), fault=fault)
    assert told(answers(known)) == [("RESPONSE", "500")]


def test_a_failed_part_beside_a_success_is_a_failed_result() -> None:
    fault = Fault(FaultCode.EXHAUSTED)
    done = part("w1", JobState.SUCCEEDED, b'{"w1":{"result":1}}')
    known = status(JobState.DEAD, done, part("w2", JobState.DEAD), fault=fault)
    said = answers(known)
    assert told(said) == [("RESPONSE", "202"), ("RESPONSE", "200"), ("RESPONSE", "200")]
    assert body_of(said[2])["w2"]["errors"] == ["exhausted"]


def test_after_a_restart_the_name_that_is_asked_for_is_the_one_that_was_announced() -> None:
    done = part("w2", JobState.SUCCEEDED, b'{"w2":{"result":1}}')
    assert body_of(answers(status(JobState.SUCCEEDED, done), target='["w1"]')[1]) == {
        "w1": {"result": 1}
    }
    said = answers(status(JobState.QUEUED, part("", JobState.QUEUED)), target='["w1"]')
    assert body_of(said[1])["worker"] == "w1"


def test_a_cancel_that_still_waits_says_so() -> None:
    (said,) = answers(status(JobState.RUNNING, cancelling=True), RequestKind.CANCEL)
    assert (told([said]), body_of(said)["status"]) == ([("RESPONSE", "300")], "CANCELLING")


def test_a_status_without_a_question_of_ours_is_about_all_workers() -> None:
    side = NfpBrokerSide("nfp")
    known = status(JobState.RUNNING, part("w1", JobState.RUNNING))
    effect = SendStatus(PeerId("nfp/c1"), JobId("j1"), RequestKind.RESULT, known)
    assert len(side.render(effect, 1.0)) == 2
