"""A message beyond the transport's limit ends its job with a fault, or is refused."""

from dragoman.core.events import (
    CreditGranted,
    Event,
    EventDenied,
    JobForwarded,
    JobSubmitted,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import Send
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.server.oversized import refuse_oversized
from dragoman.transports.base import OversizedFrame

WORKER, CLIENT, JOB, SERVICE = PeerId("nfp/w"), PeerId("nfp/c"), JobId("j"), ServiceName("s")
FRAME = OversizedFrame.make(70, 64)
BODY = Body("nfp", (b"",))


def test_a_result_or_a_part_of_one_is_a_final_fault() -> None:
    for kind in (ReplyKind.FINAL, ReplyKind.CHUNK):
        (reply,) = refuse_oversized([ReplyReceived(WORKER, JOB, kind, BODY, attempt=2)], FRAME)
        fault = Fault(FaultCode.TOO_LARGE, "the result has 70 bytes; the limit is 64")
        assert reply == ReplyReceived(WORKER, JOB, ReplyKind.FINAL, fault=fault, attempt=2)


def test_a_forwarded_job_has_failed() -> None:
    (reply,) = refuse_oversized([JobForwarded(WORKER, JOB, SERVICE, BODY, attempt=2)], FRAME)
    assert isinstance(reply, ReplyReceived)
    assert (reply.job, reply.kind, reply.attempt) == (JOB, ReplyKind.FINAL, 2)
    assert reply.fault is not None
    assert "the forwarded request has 70 bytes" in reply.fault.message


def test_a_submission_and_a_join_are_denied() -> None:
    submitted = JobSubmitted(client=CLIENT, job=JOB, service=SERVICE, body=BODY)
    for event in (submitted, WorkerJoined(WORKER, WorkerName("w"), (SERVICE,))):
        (denied,) = refuse_oversized([event], FRAME)
        fault = Fault(FaultCode.TOO_LARGE, "the message has 70 bytes; the limit is 64")
        assert denied == EventDenied(event, fault)


def test_answers_and_events_without_content_stay() -> None:
    others: list[Event | Send] = [CreditGranted(WORKER), Send(b"w", [b"x"])]
    assert list(refuse_oversized(others, FRAME)) == others
