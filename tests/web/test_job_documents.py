"""JSON documents about jobs."""

import json

import msgspec
import pytest
from starlette.responses import Response

from dragoman.core.effects import JobStatus, PartStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.http.body_codec import HttpBodyCodec
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId, ServiceName, WorkerName
from dragoman.model.target import parse_target
from dragoman.web.job_documents import (
    final_response,
    is_for_one,
    notice,
    result_response,
    status_document,
)
from dragoman.web.problems import Problem

CODEC = HttpBodyCodec()
CLIENT, JOB, SERVICE = PeerId("http/alice"), JobId("a/b"), ServiceName("s")
NO = Fault(FaultCode.TASK_FAILED, "no")


def part(name: str, answer: Answer | None = None, **more: object) -> PartStatus:
    body = CODEC.write_answer(answer) if answer else None
    return PartStatus(WorkerName(name), JobState.SUCCEEDED, 1, body=body, **more)  # type: ignore[arg-type]


def found(*parts: PartStatus, target: str = "any", fault: Fault | None = None) -> SendStatus:
    state = JobState.FAILED if fault else JobState.SUCCEEDED
    status = JobStatus(JobId("own"), state, SERVICE, CLIENT, parts, fault, target=target)
    return SendStatus(CLIENT, JOB, RequestKind.RESULT, status, fault)


def final(answer: Answer, fault: Fault | None = None) -> SendReply:
    state = JobState.FAILED if fault else JobState.SUCCEEDED
    body = CODEC.write_answer(answer)
    kind, worker = ReplyKind.FINAL, WorkerName("w")
    return SendReply(CLIENT, JOB, kind, SERVICE, worker, body, fault, state=state)


def parsed(response: Response) -> object:
    return json.loads(bytes(response.body))


@pytest.mark.parametrize("answer", [Answer({"n": [1, None, "é"]}), Answer(None), Answer(raw=b"x")])
def test_a_final_reply_and_a_status_give_the_same_response(answer: Answer) -> None:
    for is_raw in (False, True):
        one = final_response(final(answer), is_raw)
        other = result_response(found(part("w", answer)), is_raw)
        assert (one.status_code, one.body, one.headers) == (200, other.body, other.headers)


def test_a_failed_job_gives_the_same_problem_either_way() -> None:
    with pytest.raises(Problem) as one:
        final_response(final(Answer(None), NO), False)
    with pytest.raises(Problem) as other:
        result_response(found(part("w"), fault=NO), False)
    assert one.value.document() == other.value.document()
    assert one.value.document()["state"] == "failed"


def test_a_refusal_has_no_state() -> None:
    reply = SendReply(CLIENT, JOB, ReplyKind.FINAL, SERVICE, fault=Fault(FaultCode.QUEUE_FULL))
    with pytest.raises(Problem) as problem:
        final_response(reply, False)
    assert "state" not in problem.value.document()
    assert problem.value.status == 429


def test_raw_bytes_come_as_they_are_to_those_who_want_them() -> None:
    response = final_response(final(Answer(raw=b"\x00\xff")), True)
    assert (response.body, response.media_type) == (b"\x00\xff", "application/octet-stream")
    assert response.headers["dragoman-job"] == "a%2Fb"
    value = parsed(final_response(final(Answer(raw=b"\x00")), False))
    assert value["raw"] is True  # type: ignore[index]


def test_the_results_of_several_workers_are_keyed_and_kept_in_a_problem() -> None:
    parts = part("a", Answer(1)), part("b", fault=NO), part("b", Answer(2), resources=("r",))
    results = {
        "a": {"value": 1},
        "b": {"fault": {"code": "task_failed", "message": "no"}},
        "b#2": {"value": 2, "worker": "b", "resources": ["r"]},
    }
    assert parsed(result_response(found(*parts, target="all"), False))["results"] == results  # type: ignore[index]
    with pytest.raises(Problem) as problem:
        result_response(found(*parts, target="all", fault=NO), False)
    assert parsed(problem.value.response())["results"] == results  # type: ignore[index]


def test_a_result_without_a_json_form_is_the_problem_of_a_job_that_succeeded() -> None:
    fault = Fault(FaultCode.UNMAPPABLE, "no JSON form")
    with pytest.raises(Problem) as problem:
        result_response(found(part("w", fault=fault)), False)
    assert (problem.value.status, problem.value.document()["state"]) == (422, "succeeded")


def test_a_status_names_the_job_as_it_was_asked_for() -> None:
    document = status_document(found(part("w", resources=("r",)), target="resource:r", fault=NO))
    assert (document["job"], document["state"], document["client"]) == ("a/b", "failed", CLIENT)
    assert document["parts"][0]["resources"] == ("r",)
    assert document["fault"] == {"code": "task_failed", "message": "no"}


def test_a_notice_has_the_members_of_its_body() -> None:
    document = msgspec.json.decode(msgspec.json.encode(notice(final(Answer(5)))))
    expected = {"job": "a/b", "kind": "final", "service": "s", "worker": "w", "value": 5}
    assert document == expected | {"state": "succeeded"}


@pytest.mark.parametrize(
    ("target", "service", "is_one"),
    [
        ("any", "s", True),
        ("any", EVERY_SERVICE, False),
        ("all", "s", False),
        ("a", "s", True),
        ("a,b", "s", False),
        ("labels:x=y", "s", True),
        ("resource:r", "s", False),
    ],
)
def test_the_target_decides_whether_there_is_one_result(
    target: str, service: str, is_one: bool
) -> None:
    assert is_for_one(parse_target(target), service) is is_one
