"""What ZSS clients are told, and that nothing about them is kept when they have been told."""

from typing import Any

import pytest

from dragoman.core.effects import JobStatus, PartStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.body_codec import ZssBodyCodec
from dragoman.dialects.zss.replies import ZssOpenRequest, ZssReplies
from dragoman.dialects.zss.wire import (
    PRT,
    REP,
    REQ,
    ZssMessage,
    body_of,
    read_address,
    write_address,
)
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName

JOB, CLIENT, OTHER = JobId("j1"), PeerId("zss/C1"), PeerId("zss/C2")
PONG = ServiceName("pong")
ASKED = ZssMessage(REQ, b"r1", write_address("PONG", "PING"), b"\x80", b"null", b"\xa2hi")
SAID = ZssMessage(REP, b"r1", ASKED.address, b"\x80", b"200", b"\xa4pong")


class OtherDress(ZssBodyCodec):
    """A dialect whose answers have one part, and none that begins with a question mark."""

    def read_answer(self, body: Body) -> Answer:
        if body.parts[0].startswith(b"?"):
            raise Unmappable("who knows")
        if body.parts[0].startswith(b"!"):
            return Answer(fault=Fault(FaultCode.TASK_FAILED, body.parts[0].decode()))
        return Answer(body.parts[0].decode())


def answers() -> ZssReplies:
    return ZssReplies({"zss": ZssBodyCodec(), "other": OtherDress()}, traces=False)


def told(kind: ReplyKind = ReplyKind.FINAL, client: PeerId = CLIENT, **more: Any) -> SendReply:
    said = {"state": JobState.SUCCEEDED if kind is ReplyKind.FINAL else None} | more
    return SendReply(client, JOB, kind, PONG, WorkerName("PONG#1"), **said)


def test_a_reply_of_a_service_passes_as_it_is() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0))
    assert desk.received_at(JOB) == 5.0
    assert desk.reply(told(body=body_of(SAID)), 6.0) == SAID
    assert len(desk) == 0
    assert desk.received_at(JOB) is None


def test_a_result_of_another_dialect_is_dressed_and_given_what_it_lacks() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0))
    reply = desk.reply(told(body=Body("other", (b"hi",))), 6.0)
    assert reply == ZssMessage(REP, b"r1", ASKED.address, b"\x80", b"200", b"\xa2hi")


def test_a_result_without_a_dcp_form_is_unmappable() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0))
    reply = desk.reply(told(body=Body("other", (b"?",))), 6.0)
    assert reply is not None
    assert reply.status == b"422"
    assert oldpack.decode(reply.payload)["developerMessage"] == "who knows"


def test_a_failure_in_another_dialect_keeps_its_words() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0))
    fault = Fault(FaultCode.TASK_FAILED, "failed")
    reply = desk.reply(told(body=Body("other", (b"!boom",)), fault=fault), 6.0)
    assert reply is not None
    assert oldpack.decode(reply.payload)["developerMessage"] == "!boom"


def test_a_job_asked_for_twice_is_forgotten_as_a_whole_when_it_ends() -> None:
    desk = answers()
    for client in (CLIENT, OTHER):
        desk.expect(JOB, client, ZssOpenRequest(ASKED, 5.0))
    desk.reply(told(client=OTHER, body=body_of(SAID)), 6.0)
    assert len(desk) == 0


def test_a_refusal_ends_only_what_was_refused() -> None:
    desk = answers()
    for client in (CLIENT, OTHER):
        desk.expect(JOB, client, ZssOpenRequest(ASKED, 5.0))
    fault = Fault(FaultCode.CONFLICT, "taken")
    reply = desk.reply(told(client=OTHER, fault=fault, state=None), 6.0)
    assert reply is not None
    assert reply.status == b"409"
    assert len(desk) == 1


def test_a_request_of_an_earlier_process_is_answered_as_far_as_can_be() -> None:
    assert answers().reply(told(body=body_of(SAID)), 6.0) == SAID
    lost = answers().reply(told(fault=Fault(FaultCode.JOB_TIMEOUT), state=JobState.EXPIRED), 6.0)
    assert lost is not None
    assert (lost.rid, lost.status, read_address(lost.address).sid) == (b"j1", b"504", "PONG")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ReplyKind.QUEUED, b"202"),
        (ReplyKind.DISPATCHED, b"202"),
        (ReplyKind.PROGRESS, b"102"),
        (ReplyKind.CHUNK, b"206"),
        (ReplyKind.INPUT_ASKED, b"100"),
    ],
)
def test_parts_go_to_those_who_read_them(kind: ReplyKind, status: bytes) -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0, wants_parts=True))
    desk.expect(JOB, OTHER, ZssOpenRequest(ASKED, 5.0))
    body = Body("other", (b"hm",)) if status != b"202" else EMPTY
    part = desk.reply(told(kind, body=body), 6.0)
    assert part is not None
    assert (part.kind, part.status) == (PRT, status)
    assert read_address(part.address).extra == {"request": "j1", "worker": "PONG#1"}
    assert desk.reply(told(kind, client=OTHER, body=body), 6.0) is None
    assert desk.reply(told(ReplyKind.ACCEPTED), 6.0) is None
    assert desk.reply(told(kind, client=PeerId("zss/C9")), 6.0) is None


@pytest.mark.parametrize(
    "address", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa1n\xcf" + b"\xff" * 8]
)
@pytest.mark.parametrize("kind", [ReplyKind.FINAL, ReplyKind.CHUNK])
def test_a_service_may_write_what_it_likes_into_the_address(
    address: bytes, kind: ReplyKind
) -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0, wants_parts=True))
    odd = ZssMessage(REP, b"r1", address, b"\x80", b"200", b"\xa4pong")
    reply = desk.reply(told(kind, body=body_of(odd)), 6.0)
    assert reply is not None
    assert read_address(reply.address).extra["worker"] == "PONG#1"


def test_the_results_of_several_instances_are_one_map() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, ZssOpenRequest(ASKED, 5.0))
    parts: list[dict[str, Any]] = [
        {"body": body_of(SAID)},
        {"body": Body("other", (b"?",))},
        {"fault": Fault(FaultCode.TASK_FAILED, "boom")},
    ]
    for n, part in enumerate(parts):
        effect = told(ReplyKind.PART, **part)
        renamed = SendReply(
            CLIENT, JOB, effect.kind, PONG, WorkerName(f"w{n}"), effect.body, effect.fault
        )
        assert desk.reply(renamed, 6.0) is None
    reply = desk.reply(told(state=JobState.FAILED), 6.0)
    assert reply is not None
    said = oldpack.decode(reply.payload)
    assert reply.status == b"207"
    assert said["w0"] == {"status": 200, "payload": "pong"}
    assert (said["w1"]["status"], said["w2"]["status"]) == (422, 500)


def test_a_question_is_answered_once_with_its_own_request_id() -> None:
    desk = answers()
    question = ZssMessage(REQ, b"q1", write_address("TITANIC", "RESULT"))
    desk.expect_status(JOB, CLIENT, RequestKind.RESULT, ZssOpenRequest(question, 5.0))
    part = PartStatus(WorkerName("PONG#1"), JobState.SUCCEEDED, body=body_of(SAID))
    status = JobStatus(JOB, JobState.SUCCEEDED, PONG, CLIENT, (part,))
    reply = desk.status(SendStatus(CLIENT, JOB, RequestKind.RESULT, status), 6.0)
    assert reply is not None
    assert (reply.rid, reply.status, reply.payload) == (b"q1", b"200", b"\xa4pong")
    assert desk.status(SendStatus(CLIENT, JOB, RequestKind.RESULT, status), 6.0) is None
    assert len(desk) == 0


def test_a_job_that_failed_without_a_word_is_fetched_as_its_fault() -> None:
    desk = answers()
    desk.expect_status(JOB, CLIENT, RequestKind.RESULT, ZssOpenRequest(ASKED, 5.0))
    fault = Fault(FaultCode.EXHAUSTED, "lost three times")
    part = PartStatus(WorkerName("PONG#1"), JobState.DEAD, fault=fault)
    status = JobStatus(JOB, JobState.DEAD, PONG, CLIENT, (part,), fault)
    reply = desk.status(SendStatus(CLIENT, JOB, RequestKind.RESULT, status), 6.0)
    assert reply is not None
    assert reply.status == b"502"
    assert oldpack.decode(reply.payload)["developerMessage"] == "lost three times"


def test_input_that_was_of_no_use_is_said_to_be() -> None:
    fault = Fault(FaultCode.UNKNOWN_JOB, "does not run")
    reply = answers().status(SendStatus(CLIENT, JOB, RequestKind.INPUT, None, fault), 6.0)
    assert reply is not None
    assert (reply.kind, reply.rid, reply.status) == (PRT, b"j1", b"404")
