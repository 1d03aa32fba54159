"""Replies to MDP clients. Nothing is kept of a client after its reply."""

from dragoman.core.effects import RequestKind, SendReply, SendStatus
from dragoman.core.events import ReplyKind
from dragoman.dialects.mdp.replies import MdpPendingRequest, MdpReplies, RequestOrigin
from dragoman.dialects.mdp.wire import V1, V2, ClientReply
from dragoman.dialects.notes import read_note
from dragoman.dialects.registry import body_codecs
from dragoman.model.body import Body
from dragoman.model.content import Answer
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName

JOB, C1, C2, ECHO = JobId("j1"), PeerId("mdp/C1"), PeerId("mdp/C2"), ServiceName("echo")
CODECS = body_codecs()


def make(origin: RequestOrigin = RequestOrigin.PLAIN, version: int = V2) -> MdpReplies:
    replies = MdpReplies(CODECS, is_silent=False)
    replies.expect(JOB, C1, MdpPendingRequest(b"echo", version, origin))
    return replies


def ended(body: Body, client: PeerId = C1, fault: Fault | None = None) -> SendReply:
    state = JobState.FAILED if fault else JobState.SUCCEEDED
    return SendReply(client, JOB, ReplyKind.FINAL, ECHO, WorkerName("w"), body, fault, state=state)


def test_a_result_of_mdp_passes_byte_for_byte_and_nothing_is_kept() -> None:
    replies = make(version=V1)
    reply = replies.reply(ended(Body("mdp", (b"x", b"", b"y"))), "")
    assert reply == ClientReply(b"echo", (b"x", b"", b"y"), version=V1)
    assert len(replies) == 0


def test_a_result_of_another_dialect_is_converted() -> None:
    reply = make().reply(ended(CODECS["nfp"].write_answer(Answer({"a": 1}))), "")
    assert reply is not None
    assert CODECS["mdp"].read_answer(Body("mdp", reply.body)) == Answer({"a": 1})


def test_a_result_without_an_mdp_form_is_a_fault() -> None:
    reply = make(RequestOrigin.NOTES).reply(ended(CODECS["nfp"].write_answer(Answer(2**70))), "")
    assert reply is not None
    note = read_note(reply.body[0])
    assert note is not None
    assert (note["kind"], note["code"]) == ("fault", "unmappable")


def test_the_message_of_a_fault_comes_from_the_result() -> None:
    failed = CODECS["nfp"].write_answer(Answer(fault=Fault(FaultCode.TASK_FAILED, "no paper")))
    effect = ended(failed, fault=Fault(FaultCode.TASK_FAILED))
    note = read_note(make(RequestOrigin.NOTES).reply(effect, "").body[0])  # type: ignore[union-attr]
    assert note is not None
    assert note["message"] == "no paper"


def test_a_refusal_ends_only_the_refused_request() -> None:
    replies = make()
    replies.expect(JOB, C2, MdpPendingRequest(b"echo", V2))
    refused = SendReply(C2, JOB, ReplyKind.FINAL, ECHO, fault=Fault(FaultCode.CONFLICT))
    assert replies.reply(refused, "") == ClientReply(b"echo", (b"",))
    assert len(replies) == 1


def test_a_plain_client_gets_no_reports() -> None:
    replies = make()
    for kind in (ReplyKind.QUEUED, ReplyKind.DISPATCHED, ReplyKind.PROGRESS):
        assert replies.reply(SendReply(C1, JOB, kind, ECHO), "") is None


def test_a_reply_to_a_request_of_an_earlier_process_is_sent_in_the_second_version() -> None:
    replies = MdpReplies(CODECS, is_silent=True)
    assert replies.reply(ended(Body("mdp", (b"x",))), "") == ClientReply(b"echo", (b"x",))


def test_a_question_is_answered_once() -> None:
    replies = MdpReplies(CODECS, is_silent=False)
    pending = MdpPendingRequest(b"titanic.reply", V2, RequestOrigin.TITANIC)
    replies.expect_status(JOB, C1, RequestKind.RESULT, pending)
    effect = SendStatus(C1, JOB, RequestKind.RESULT, None)
    found = replies.status(effect)
    assert found is not None
    assert found[1].body == (b"400",)
    assert replies.status(effect) is None
    assert len(replies) == 0
