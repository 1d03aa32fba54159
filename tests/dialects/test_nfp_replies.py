"""What NFP clients are told about their jobs, and by which names."""

import json

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

from dragoman.core.effects import SendReply
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import Send
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.body_codec import NfpBodyCodec
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName


class Other(NfpBodyCodec):
    """Another dialect: its bodies are text; `?` cannot be converted."""

    name = "other"

    def read_answer(self, body: Body) -> Answer:
        if body.parts[0] == b"?":
            raise Unmappable("nobody can say this")
        if body.parts[0].startswith(b"\0"):
            return Answer(raw=body.parts[0])
        return Answer(body.parts[0].decode())


def say(text: bytes) -> Body:
    return Body("other", (text,))


@pytest.fixture
def side() -> NfpBrokerSide:
    return NfpBrokerSide("nfp", codecs={"nfp": NfpBodyCodec(), "other": Other()})


def reply(
    kind: ReplyKind,
    body: Body = EMPTY,
    worker: str = "w1",
    fault: Fault | None = None,
    workers: tuple[str, ...] = (),
    state: JobState | None = None,
) -> SendReply:
    return SendReply(
        PeerId("nfp/c1"),
        JobId("j1"),
        kind,
        ServiceName("math"),
        WorkerName(worker),
        body,
        fault,
        tuple(map(WorkerName, workers)),
        state,
    )


def messages(sends: list[Send]) -> list[wire.Message]:
    return [wire.decode(send.frames) for send in sends]


def test_reported_bytes_of_another_dialect_are_an_event(side: NfpBrokerSide) -> None:
    (send,) = side.render(reply(ReplyKind.PROGRESS, say(b"\0\1")), 1.0)
    event_ = json.loads(send.frames[-1])
    assert event_["extras"]["event"] == {"$bytes": "AAE="}


def test_a_report_of_another_dialect_is_norfabs_event(side: NfpBrokerSide) -> None:
    effects = [
        reply(ReplyKind.DISPATCHED, workers=("w1",)),
        reply(ReplyKind.ACCEPTED, EMPTY),
        reply(ReplyKind.PROGRESS, say(b"half")),
        reply(ReplyKind.INPUT_ASKED, say(b"go on?")),
        reply(ReplyKind.CHUNK, say(b"abc")),
        reply(ReplyKind.FINAL, say(b"done"), state=JobState.SUCCEEDED),
    ]
    said = [m for e in effects for m in messages(side.render(e, 0.0))]
    assert told(said) == [
        ("RESPONSE", "202"),
        ("RESPONSE", "201"),
        ("EVENT", "200"),
        ("EVENT", "200"),
        ("STREAM", "200"),
        ("RESPONSE", "200"),
    ]
    assert body_of(said[1])["status"] == "ACCEPTED"
    assert (body_of(said[2])["message"], body_of(said[2])["worker"]) == ("half", "w1")
    assert body_of(said[2])["timestamp"] == "01-Jan-1970 00:00:00.000"
    assert body_of(said[3])["extras"]["input_request"]["question"] == "go on?"
    assert isinstance(said[4], wire.NfpReply)
    assert said[4].body == b"abc"
    assert body_of(said[5])["w1"]["result"] == "done"


def test_a_report_of_a_dialect_without_a_codec_is_still_an_event(side: NfpBrokerSide) -> None:
    for body in (Body("unheard", (b"x",)), say(b"?")):
        (event,) = messages(side.render(reply(ReplyKind.PROGRESS, body), 0.0))
        assert body_of(event)["event_type"] == "progress"


def test_a_result_without_a_form_here_is_a_failed_one(side: NfpBrokerSide) -> None:
    side.render(reply(ReplyKind.DISPATCHED, workers=("w1",)), 0.0)
    (final,) = messages(side.render(reply(ReplyKind.FINAL, say(b"?")), 0.0))
    said = body_of(final)["w1"]
    assert (said["failed"], said["errors"]) == (True, ["nobody can say this"])


def test_a_success_without_a_body_is_a_null_result(side: NfpBrokerSide) -> None:
    side.render(reply(ReplyKind.DISPATCHED, workers=("w1",)), 0.0)
    (final,) = messages(side.render(reply(ReplyKind.FINAL), 0.0))
    assert body_of(final)["w1"]["result"] is None


@pytest.mark.parametrize("worker", ["", "w1"])
def test_a_job_that_ended_without_a_result_is_an_error_status(
    side: NfpBrokerSide, worker: str
) -> None:
    side.receive(b"c1", wire.encode(post(target="any")), 0.0)
    fault = Fault(FaultCode.JOB_TIMEOUT, "not finished within 20 s")
    (final,) = messages(side.render(reply(ReplyKind.FINAL, worker=worker, fault=fault), 0.0))
    assert told([final]) == [("RESPONSE", "408")]
    assert body_of(final)["error"] == "not finished within 20 s"
    assert body_of(final)["code"] == "job_timeout"
    assert not side.client_jobs.open


def test_an_answer_from_memory_is_announced_before_it_is_given(side: NfpBrokerSide) -> None:
    body = Body("nfp", (b'{"w7":{"result":5}}',))
    said = messages(side.render(reply(ReplyKind.FINAL, body, worker=""), 0.0))
    assert told(said) == [("RESPONSE", "202"), ("RESPONSE", "200")]
    assert body_of(said[0])["workers"] == ["w7"]
    said = messages(side.render(reply(ReplyKind.FINAL, say(b"x"), worker=""), 0.0))
    assert body_of(said[0])["workers"] == list(body_of(said[1])) == ["dragoman"]


def test_several_parts_are_answered_one_by_one_and_not_again() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("w2", ready())
    fabric.say("c1", post(target="all"))
    fabric.say("w1", response("200", {"w1": {"result": None, "failed": True, "errors": ["no"]}}))
    fabric.say("w2", response("200", result(6, "w2")))
    assert told(fabric.heard("c1")) == [
        ("RESPONSE", "202"),
        ("RESPONSE", "200"),
        ("RESPONSE", "200"),
    ]
    assert not fabric.side.client_jobs.open


def test_a_lost_part_is_a_failed_result_so_that_the_others_count(side: NfpBrokerSide) -> None:
    side.render(reply(ReplyKind.DISPATCHED, workers=("w1", "w2")), 0.0)
    fault = Fault(FaultCode.EXHAUSTED, "lost with its worker 3 times")
    (part,) = messages(side.render(reply(ReplyKind.PART, fault=fault), 0.0))
    assert told([part]) == [("RESPONSE", "200")]
    assert body_of(part)["w1"]["failed"] is True


def test_a_time_out_of_several_parts_fails_the_job_even_if_one_was_answered() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("w2", ready())
    fabric.say("c1", post(target="all"))
    fabric.say("w1", response("200", result()))
    for _ in range(5):
        fabric.advance(5)
        fabric.say("w1", wire.KeepAlive(wire.WORKER, b"math"))
        fabric.say("w2", wire.KeepAlive(wire.WORKER, b"math"))
    assert told(fabric.heard("c1"))[-1] == ("RESPONSE", "408")
    assert len(fabric.side.workers.assignments) == 0


def test_after_a_restart_the_end_of_several_parts_is_left_to_their_own_answers(
    side: NfpBrokerSide,
) -> None:
    failed = reply(ReplyKind.FINAL, worker="", fault=Fault(FaultCode.TASK_FAILED))
    assert side.render(failed, 0.0) == []
    expired = reply(ReplyKind.FINAL, worker="", fault=Fault(FaultCode.JOB_TIMEOUT))
    assert told(messages(side.render(expired, 0.0))) == [("RESPONSE", "408")]


def taken_over() -> NfpFabric:
    """Make a job that was announced for w1 and now runs on w2."""
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("c1", post())
    fabric.say("w2", ready())
    fabric.say("w1", wire.NfpDisconnect(wire.WORKER, b"math", b'{"clean":true}'))
    fabric.heard("w2")
    return fabric


def test_a_result_of_another_worker_bears_the_announced_name() -> None:
    fabric = taken_over()
    fabric.say("w2", event("result_ready"), response("200", result(5, "w2", juuid="j1")))
    said = fabric.heard("c1")
    assert told(said) == [("RESPONSE", "202"), ("RESPONSE", "200")]
    assert body_of(said[0])["workers"] == ["w1"]
    assert body_of(said[1]) == result(5, "w1", juuid="j1")


def test_a_later_get_returns_the_result_by_the_announced_name() -> None:
    fabric = taken_over()
    fabric.say("w2", response("200", result(5, "w2")))
    fabric.heard("c1")
    fabric.say("c1", get(target='["w1"]'))
    assert [body_of(m) for m in fabric.heard("c1")][1] == result(5, "w1")
    fabric.say("c9", get(target="all"))
    assert [body_of(m) for m in fabric.heard("c9")][1] == result(5, "w2")


def test_the_same_post_again_is_announced_by_the_same_names() -> None:
    fabric = taken_over()
    fabric.heard("c1")
    fabric.say("c1", post())
    assert body_of(fabric.heard("c1")[0])["workers"] == ["w1"]


def test_a_post_of_a_finished_job_is_answered_at_once_with_its_result() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("c1", post())
    fabric.say("w1", response("200", result()))
    fabric.heard("c1")
    fabric.say("c1", post())
    assert told(fabric.heard("c1")) == [("RESPONSE", "202"), ("RESPONSE", "200")]


def test_answers_bear_the_service_of_the_worker_and_the_202_the_one_asked_for() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("w2", ready("files"))
    fabric.say("c1", post(service="all", target="all"))
    fabric.say("w2", response("200", result(1, "w2")))
    said = [m.service for m in fabric.heard("c1") if isinstance(m, wire.NfpReply)]
    assert said == [b"all", b"files"]


def test_a_conflicting_post_is_refused_and_the_first_job_goes_on() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("c1", post())
    fabric.say("c2", post(body=b'{"task":"other"}'))
    assert body_of(fabric.heard("c2")[0])["code"] == "conflict"
    fabric.say("w1", response("200", result()))
    assert told(fabric.heard("c1"))[-1] == ("RESPONSE", "200")
