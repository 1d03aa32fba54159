"""Messages at the gate, through the real sides: what is allowed, and how each dialect refuses."""

from typing import Any

import pytest
from tests.security.gated_broker import GatedBroker
from tests.security.keyring import ring

from dragoman.core.effects import Dismiss
from dragoman.core.events import JobSubmitted, ReplyKind, WorkerJoined
from dragoman.dialects.base import Send, Subscribed
from dragoman.dialects.dcp.client_side import DcpClientSide as DcpClient
from dragoman.dialects.dcp.worker_side import DcpWorkerSide as DcpWorker
from dragoman.dialects.mdp.worker_side import MdpWorkerSide as MdpWorker
from dragoman.dialects.memo01 import wire as memo
from dragoman.dialects.ncl.messages import BacError, HandshakeResponse
from dragoman.dialects.ncl.wire import decode as ncl_decode
from dragoman.dialects.ncl.worker_side import NclWorkerSide as NclWorker
from dragoman.dialects.nfp.client_side import NfpClientSide as NfpClient
from dragoman.dialects.nfp.worker_side import NfpWorkerSide as NfpWorker
from dragoman.dialects.peer_sides import Dismissed, Finished, Submission
from dragoman.dialects.zss.client_side import ZssClientSide as ZssClient
from dragoman.dialects.zss.wire import decode as zss_decode
from dragoman.dialects.zss.worker_side import ZssWorkerSide as ZssWorker
from dragoman.model.body import Body
from dragoman.model.content import Call
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.security.policy_text import read_policy

NEW = "00000000-0000-4000-8000-00000000000f"
ROLES = {"sue": "submitter", "will": "worker", "vera": "viewer", "mal": "worker", "ann": "auditor"}


def gated_broker(policy: str = "") -> GatedBroker:
    return GatedBroker(ring(**ROLES), policy)


def order(job: str = "00000000-0000-4000-8000-000000000001") -> Submission:
    return Submission(JobId(job), "lift", Call("run"))


def fault_of(side: Any, sends: list[Any]) -> FaultCode | None:
    """Return what a client's side decodes from the broker's messages."""
    notices = [n for send in sends for n in side.receive(send.frames)]
    (end,) = [n for n in notices if isinstance(n, Finished)]
    return end.fault.code if end.fault else None


def test_a_principal_is_on_every_record_of_what_it_does() -> None:
    at = gated_broker()
    for frames in NfpWorker("w1", "lift").join():
        at.say("nfp", b"w1", frames, "will")
    (frames,) = NfpClient(lambda: NEW).submit(order())
    at.say("nfp", b"c1", frames, "sue")
    by_kind = {r.kind: r.principal for r in at.records}
    assert by_kind == {"joined": "will", "submitted": "sue", "dispatched": "sue"}


def test_nfp_refuses_a_client_and_a_worker() -> None:
    at, client = gated_broker(), NfpClient(lambda: NEW)
    (frames,) = client.submit(order())
    assert fault_of(client, at.say("nfp", b"c1", frames, "vera")) is FaultCode.DENIED
    assert at.kinds() == ["refused"]
    worker = NfpWorker("w1", "lift")
    sends = [s for frames in worker.join() for s in at.say("nfp", b"w1", frames, "sue")]
    assert any(isinstance(w, Dismissed) for s in sends for w in worker.receive(s.frames))
    assert at.kinds() == ["denied"]


@pytest.mark.parametrize(
    ("link", "worker"),
    [
        ("nfp", NfpWorker("w1", "lift")),
        ("dcp", DcpWorker("lift", name="w1")),
        ("mdp", MdpWorker("lift", name="w1")),
        ("zss_backend", ZssWorker(("lift",))),
    ],
)
def test_a_worker_that_is_refused_is_not_confirmed_and_learns_the_reason(
    link: str, worker: Any
) -> None:
    at = gated_broker()
    sends = [s for frames in worker.join() for s in at.say(link, b"w1", frames, "sue")]
    notices = [notice for send in sends for notice in worker.receive(send.frames)]
    told = [notice.reason for notice in notices if isinstance(notice, Dismissed)]
    assert not worker.is_joined
    (reason,) = told or [worker.refusal]
    assert reason.startswith("no rule of submitter allows: register lift")


@pytest.mark.parametrize(
    ("link", "worker"),
    [
        ("nfp", NfpWorker("w1", "lift")),
        ("dcp", DcpWorker("lift", name="w1")),
        ("mdp", MdpWorker("lift", name="w1")),
        ("zss_backend", ZssWorker(("lift",))),
    ],
)
def test_a_worker_that_is_allowed_is_confirmed(link: str, worker: Any) -> None:
    at = gated_broker()
    for send in [s for frames in worker.join() for s in at.say(link, b"w1", frames, "will")]:
        worker.receive(send.frames)
    assert worker.is_joined
    assert at.kinds() == ["joined"]


def test_nfp_refuses_a_subscription_unless_it_is_allowed() -> None:
    at, client = gated_broker(), NfpClient(lambda: NEW)
    (frames,) = client.subscribe(("*",), 0)
    (send,) = at.say("nfp", b"c1", frames, "sue")
    assert b"denied" in b" ".join(send.frames)
    assert (at.kinds(), at.subscribed) == (["denied"], [])
    (frames,) = client.subscribe(("*",), 0)
    at.say("nfp", b"c2", frames, "ann")
    assert [s.peer for s in at.subscribed] == ["nfp/c2"]


def test_dcp_refuses_a_client_and_asks_a_worker_to_register_again() -> None:
    at, client = gated_broker(), DcpClient()
    (frames,) = client.submit(order())
    assert fault_of(client, at.say("dcp", b"c1", frames, "vera")) is FaultCode.DENIED
    worker = DcpWorker("lift", name="w1")
    sends = [s for frames in worker.join() for s in at.say("dcp", b"w1", frames, "sue")]
    words = [w for s in sends for w in worker.receive(s.frames)]
    assert [type(w) for w in words] == [Dismissed], "no echo of the registration"
    assert at.kinds() == ["refused", "denied"]


def test_zss_answers_403_to_a_client_and_500_to_an_instance() -> None:
    at, client = gated_broker(), ZssClient()
    (frames,) = client.submit(order())
    assert fault_of(client, at.say("zss", b"c1", frames, "vera")) is FaultCode.DENIED
    worker = ZssWorker(("lift",))
    sends = [s for frames in worker.join() for s in at.say("zss_backend", b"w1", frames, "sue")]
    assert [zss_decode(s.frames).status for s in sends] == [b"500"]
    assert at.kinds() == ["refused", "denied"]
    assert not at.broker.state.registry.workers


def test_memo01_does_not_answer_a_client_and_disconnects_a_worker() -> None:
    at = gated_broker()
    job = memo.encode(memo.MemoJob(b"", "lift", 1000, b"x"))
    assert at.say("memo", b"connect1" + b"\x80\0\0\1", [job], "vera") == []
    assert at.kinds() == ["refused"]
    ready = memo.encode(memo.MemoReady(("lift",)))
    (send,) = at.say("memo", b"connect2" + b"\x80\0\0\1", [ready], "sue")
    assert isinstance(memo.decode(send.frames[0]), memo.MemoDisconnect)
    assert at.kinds() == ["denied"]


def memo_worker(at: GatedBroker, connection: bytes, key: str) -> str:
    at.say("memo", connection + b"\x80\0\0\1", [memo.encode(memo.MemoReady(("lift",)))], key)
    (worker,) = at.broker.state.registry.workers.values()
    return worker.peer.partition("/")[2]


def test_another_key_cannot_use_the_id_of_a_memo01_worker() -> None:
    at = gated_broker()
    id_ = memo_worker(at, b"connect1", "will")
    beat = memo.encode(memo.MemoHeartbeat(bytes.fromhex(id_)))
    (send,) = at.say("memo", b"connect2" + b"\x80\0\0\1", [beat], "mal")
    assert isinstance(memo.decode(send.frames[0]), memo.MemoDisconnect)
    assert send.address.startswith(b"connect2")
    assert at.kinds() == ["joined", "denied"]
    assert len(at.broker.state.registry.workers) == 1


def test_a_forged_resend_of_anothers_request_gets_no_answer() -> None:
    at = gated_broker()
    memo_worker(at, b"connect1", "will")
    at.gate.change_policy(read_policy("[principals]\nmal = ['submitter']\n"))
    job = memo.encode(memo.MemoJob(b"", "lift", 1000, b"x"))
    at.say("memo", b"connect2" + b"\x80\0\0\7", [job], "sue")
    at.kinds()
    assert at.say("memo", b"connect3" + b"\x80\0\0\7", [job], "mal") == []
    assert at.kinds() == ["denied"]
    assert at.say("memo", b"connect4" + b"\x80\0\0\7", [job], "sue") == []
    assert at.kinds() == [], "the owner may come back on another connection"
    (worker,) = at.broker.state.registry.workers.values()
    result = memo.encode(memo.MemoResult(bytes.fromhex(worker.peer.partition("/")[2]), b"y"))
    sends = at.say("memo", b"connect1" + b"\x80\0\0\2", [result], "will")
    assert sorted(s.address[:8] for s in sends) == [b"connect2", b"connect4"]


def test_the_transports_notice_of_a_closed_connection_needs_no_key() -> None:
    at = gated_broker()
    memo_worker(at, b"connect1", "will")
    at.say("memo", b"connect1", [], "")
    assert at.kinds() == ["joined", "left"]


def ncl_join(name: str) -> list[bytes]:
    side = NclWorker(name, ("lift",), ids=lambda: "n", clock=lambda: 1000.0, slots=1)
    (frames,) = side.join()
    return [bytes(frame) for frame in frames]


def test_ncl_refuses_a_node_in_its_handshake() -> None:
    at = gated_broker()
    subject, *frames = ncl_join("n1")
    (send,) = at.say("ncl", subject, frames, "sue")
    answer = ncl_decode(send.frames[0]).payload
    assert isinstance(answer, HandshakeResponse)
    assert (answer.accepted, "register" in answer.reason) == (False, True)
    assert "denied" in at.kinds()


def test_another_key_cannot_use_the_subject_of_an_ncl_node() -> None:
    at = gated_broker()
    subject, *frames = ncl_join("n1")
    (send,) = at.say("ncl", subject, frames, "will")
    first = ncl_decode(send.frames[0]).payload
    assert isinstance(first, HandshakeResponse)
    assert first.accepted
    (send,) = at.say("ncl", subject, frames, "mal")
    second = ncl_decode(send.frames[0]).payload
    assert isinstance(second, HandshakeResponse)
    assert "take-over" in second.reason
    (worker,) = at.broker.state.registry.workers.values()
    assert worker.principal == "will"


def test_ncl_answers_other_requests_of_an_unknown_key_with_403() -> None:
    at = gated_broker()
    (send,) = at.say("ncl", b"bacalhau.global.compute.n1.out.ctrl", [b"??", b"", b"r"], "mal-ory")
    answer = ncl_decode(send.frames[0]).payload
    assert isinstance(answer, BacError)
    assert answer.HTTPStatusCode == 403


def test_http_gets_a_refusal_before_the_acknowledgement() -> None:
    at = gated_broker()
    client, worker = PeerId("http/c1"), PeerId("http/worker:1")
    acknowledgement = Send(b"", (), is_strict=True)
    submitted = JobSubmitted(JobId("j1"), client, ServiceName("lift"), Body("http", (b"{}",)))
    items: Any = [submitted, acknowledgement]
    refusal, last = at.say("http", b"c1", items, "vera")
    reply: Any = refusal.frames[0]
    assert (reply.kind, reply.fault.code) == (ReplyKind.FINAL, FaultCode.DENIED)
    assert last is acknowledgement
    items = [WorkerJoined(worker, WorkerName("w1"), (ServiceName("lift"),)), acknowledgement]
    dismissal, last = at.say("http", b"worker:1", items, "vera")
    assert isinstance(dismissal.frames[0], Dismiss)
    assert last is acknowledgement


def test_a_routing_id_is_not_taken_over_and_its_owner_notices_nothing() -> None:
    at = gated_broker()
    for frames in NfpWorker("w1", "lift").join():
        at.say("nfp", b"w1", frames, "will")
    for frames in NfpWorker("w1", "drop").join():
        at.say("nfp", b"w1", frames, "mal")
    (worker,) = at.broker.state.registry.workers.values()
    assert (worker.services, worker.principal) == (("lift",), "will")
    first, *others = at.kinds()
    assert (first, set(others)) == ("joined", {"denied"})
    client = NfpClient(lambda: NEW)
    (frames,) = client.submit(order())
    assert fault_of(client, at.say("nfp", b"w1", frames, "sue")) is FaultCode.DENIED


def test_a_subscription_may_always_be_ended() -> None:
    at = gated_broker()
    ended: Any = [Subscribed(PeerId("http/c1"), (), tag="all")]
    at.say("http", b"c1", ended, "sue")
    assert len(at.subscribed) == 1


def test_a_flood_of_refusals_is_answered_to_the_last_but_not_all_recorded() -> None:
    at, client = gated_broker(), NfpClient(lambda: NEW)
    answers = 0
    for number in range(100):
        job = f"00000000-0000-4000-8000-{number:012}"
        (frames,) = client.submit(order(job))
        answers += len(at.say("nfp", b"c1", frames, "vera"))
    assert answers == 100
    assert len(at.records) == 20
