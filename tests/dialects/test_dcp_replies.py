"""Replies to DCP clients. Nothing is kept of a client after its reply."""

from dragoman.core.effects import JobStatus, PartStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.dcp.body_codec import DcpBodyCodec
from dragoman.dialects.dcp.notes import take_report
from dragoman.dialects.dcp.replies import DcpPendingRequest, DcpReplies
from dragoman.dialects.notes import write_note
from dragoman.dialects.parts import pack
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName

JOB, CLIENT, OTHER = JobId("j1"), PeerId("dcp/C1"), PeerId("dcp/C2")
ECHO = ServiceName("echo")
RESULT = Body("dcp", (b"m", b"", b"\x05"))


def answers() -> DcpReplies:
    return DcpReplies({"dcp": DcpBodyCodec()}, "empty")


def final(client: PeerId = CLIENT, **more: object) -> SendReply:
    said: dict[str, object] = {"body": RESULT, "state": JobState.SUCCEEDED} | more
    return SendReply(client, JOB, ReplyKind.FINAL, ECHO, **said)  # type: ignore[arg-type]


def test_a_result_goes_out_with_the_metadata_of_its_request() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, DcpPendingRequest((b"mine",), False))
    assert desk.reply(final()) == (b"mine", b"", b"\x05")
    assert len(desk) == 0


def test_a_job_asked_for_twice_is_forgotten_as_a_whole_when_it_ends() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, DcpPendingRequest((b"m",), False))
    desk.expect(JOB, OTHER, DcpPendingRequest((b"m",), False))
    assert desk.reply(final(OTHER)) is not None
    assert len(desk) == 0


def test_a_refusal_ends_only_what_was_refused() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, DcpPendingRequest((b"m",), False))
    desk.expect(JOB, OTHER, DcpPendingRequest((b"n",), True))
    fault = Fault(FaultCode.CONFLICT, "taken")
    told = desk.reply(final(OTHER, body=Body(""), fault=fault, state=None))
    assert told is not None
    tail, note = take_report(told)
    assert tail == (b"n", b"")
    assert note is not None
    assert (note["kind"], note["code"]) == ("fault", "conflict")
    assert len(desk) == 1
    assert desk.reply(final()) == (b"m", b"", b"\x05")


def test_a_reply_to_a_request_of_an_earlier_process_carries_the_workers_metadata() -> None:
    assert answers().reply(final()) == (b"m", b"", b"\x05")
    lost = final(body=Body(""), fault=Fault(FaultCode.JOB_TIMEOUT), state=JobState.EXPIRED)
    assert answers().reply(lost) == (b"",)


def test_a_plain_client_gets_no_reports() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, DcpPendingRequest((b"m",), False))
    for kind in (ReplyKind.QUEUED, ReplyKind.DISPATCHED, ReplyKind.PROGRESS, ReplyKind.CHUNK):
        assert desk.reply(SendReply(CLIENT, JOB, kind, ECHO, body=RESULT)) is None
    assert desk.reply(SendReply(OTHER, JOB, ReplyKind.QUEUED, ECHO)) is None


def test_a_question_is_answered_once_with_its_own_metadata() -> None:
    desk = answers()
    note = write_note({"ask": "result", "job": JOB})
    desk.expect_status(JOB, CLIENT, RequestKind.RESULT, (note, b""))
    parts = (PartStatus(WorkerName("W1"), JobState.SUCCEEDED, body=RESULT),)
    status = JobStatus(JOB, JobState.SUCCEEDED, ECHO, CLIENT, parts)
    told = desk.status(SendStatus(CLIENT, JOB, RequestKind.RESULT, status))
    assert told is not None
    assert take_report(told) == (
        (note, b"", b"\x05"),
        {"kind": "result", "state": "succeeded", "worker": "W1"},
    )
    assert desk.status(SendStatus(CLIENT, JOB, RequestKind.RESULT, status)) is None
    assert len(desk) == 0


def test_a_result_without_a_dcp_form_is_unmappable() -> None:
    desk = answers()
    desk.expect_status(JOB, CLIENT, RequestKind.RESULT, (b"q", b""))
    parts = (PartStatus(WorkerName("W1"), JobState.SUCCEEDED, body=Body("latin", (b"?",))),)
    status = JobStatus(JOB, JobState.SUCCEEDED, ECHO, CLIENT, parts)
    told = desk.status(SendStatus(CLIENT, JOB, RequestKind.RESULT, status))
    assert told is not None
    assert b"unmappable" in told[-1]


def test_the_results_of_several_workers_are_one_map() -> None:
    desk = answers()
    desk.expect(JOB, CLIENT, DcpPendingRequest((b"m",), False))
    for name in ("W1", "W2"):
        part = SendReply(CLIENT, JOB, ReplyKind.PART, ECHO, WorkerName(name), RESULT)
        assert desk.reply(part) is None
    told = desk.reply(final(body=Body("")))
    assert told == (b"m", b"", pack({"W1": {"value": 5}, "W2": {"value": 5}}))


def test_a_failure_of_an_earlier_process_reaches_a_client_with_notes() -> None:
    mine = write_note({"job": "j1"})
    body = Body("dcp", (mine, b"", b"\x05"))
    fault = Fault(FaultCode.TASK_FAILED, "it failed")
    told = answers().reply(final(body=body, fault=fault, state=JobState.FAILED))
    assert told is not None
    tail, note = take_report(told)
    assert tail[:1] == (mine,)
    assert note is not None
    assert note["code"] == "task_failed"
