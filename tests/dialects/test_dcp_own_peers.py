"""Our own DCP client and worker with the real broker."""

from typing import Any

import pytest
from tests.dialects.attached_peers import Peer, beats
from tests.dialects.dcp_messages import (
    W2,
    C,
    W,
    ask,
    hear,
    make_fabric,
    register,
    say,
)
from tests.dialects.fabric import Fabric

from dragoman.dialects.dcp.client_side import DcpClientSide
from dragoman.dialects.dcp.wire import (
    WIDE,
    DcpReply,
    DcpRequest,
    Ping,
    Pong,
    Registration,
    decode,
    encode,
)
from dragoman.dialects.dcp.worker_side import DcpWorkerSide
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Chunk,
    Dismissed,
    Dispatched,
    Finished,
    InputAsked,
    InputGiven,
    Progress,
    StatusNotice,
    Stop,
    Submission,
    Unsupported,
)
from dragoman.dialects.peer_sides import SendNow as SendNow
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL


def our_worker(fabric: Fabric, address: bytes = W, **more: Any) -> tuple[Peer, DcpWorkerSide]:
    side = DcpWorkerSide("math", **more)
    peer = Peer(fabric, "dcp", address, side)
    peer.send(side.join())
    assert peer.heard() == [Alive()]
    return peer, side


def our_client(fabric: Fabric) -> tuple[Peer, DcpClientSide]:
    side = DcpClientSide()
    return Peer(fabric, "dcp", C, side), side


ADD = Submission(JobId("j1"), "math", Call("add", (2,), {"y": 3}, timeout=9.0))


def start(fabric: Fabric, **more: Any) -> tuple[Peer, DcpClientSide, Peer, DcpWorkerSide, str]:
    """Send one call from our client to our worker."""
    peer, worker = our_worker(fabric, **more)
    caller, client = our_client(fabric)
    caller.send(client.submit(ADD))
    work = peer.heard()
    assert work == [Assigned("1", JobId("j1"), Call("add", (2,), {"y": 3}), "math", "C1", 9.0)]
    assert caller.heard() == [Dispatched(JobId("j1"), (WorkerName("W1"),))]
    return caller, client, peer, worker, "1"


def test_our_client_calls_our_worker() -> None:
    fabric = make_fabric()
    caller, _, peer, worker, ticket = start(fabric)
    peer.send(worker.take(ticket))
    peer.send(worker.finish(ticket, Answer(5)))
    assert caller.heard() == [
        Finished(JobId("j1"), (Answer(5, worker="W1"),), state=JobState.SUCCEEDED)
    ]
    submitted = next(r for r in fabric.records if r.kind == "submitted")
    assert (submitted.job, submitted.task, submitted.strict) == ("j1", "add", False)
    assert submitted.deadline_at == fabric.now + 9


def test_a_repeated_submission_is_the_same_job() -> None:
    fabric = make_fabric()
    caller, client, peer, worker, ticket = start(fabric)
    caller.send(client.submit(ADD))
    assert peer.heard() == []
    assert caller.heard() == [Dispatched(JobId("j1"), (WorkerName("W1"),))]
    peer.send(worker.finish(ticket, Answer(5)))
    caller.heard()
    caller.send(client.submit(ADD))
    assert caller.heard() == [
        Finished(JobId("j1"), (Answer(5, worker="W1"),), state=JobState.SUCCEEDED)
    ]


def test_progress_chunks_and_questions_travel_between_our_own_peers() -> None:
    fabric = make_fabric()
    caller, client, peer, worker, ticket = start(fabric)
    peer.send(worker.progress(ticket, {"done": 1}))
    peer.send(worker.chunk(ticket, b"\x00bytes"))
    peer.send(worker.ask_input(ticket, "r1", "sure?"))
    assert caller.heard() == [
        Progress(JobId("j1"), {"done": 1}, "W1"),
        Chunk(JobId("j1"), b"\x00bytes", "W1"),
        InputAsked(JobId("j1"), "r1", "sure?", "W1"),
    ]
    caller.send(client.give_input(JobId("j1"), "r1", "yes", "W1"))
    assert peer.heard() == [InputGiven(ticket, "r1", "yes")]


def test_a_fault_of_our_worker_reaches_our_client_by_name() -> None:
    fabric = make_fabric()
    caller, _, peer, worker, ticket = start(fabric)
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    peer.send(worker.finish(ticket, Answer(fault=fault)))
    answers = (Answer(fault=fault, worker="W1"),)
    assert caller.heard() == [Finished(JobId("j1"), answers, fault, JobState.FAILED)]


def test_a_fault_of_our_worker_is_an_empty_reply_to_a_plain_client() -> None:
    fabric = make_fabric()
    peer, worker = our_worker(fabric)
    say(fabric, C, DcpRequest(b"math", b"", (b"m", b"", b"boom")))
    assert peer.heard() == [Assigned("1", JobId("1"), Call(raw=b"boom"), "math", "C1")]
    peer.send(worker.finish("1", Answer(fault=Fault(FaultCode.TASK_FAILED, "boom"))))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b""))]
    assert fabric.records[-1].fault == "task_failed"


def test_a_request_in_parts_is_answered_in_parts() -> None:
    fabric = make_fabric()
    peer, worker = our_worker(fabric)
    say(fabric, C, DcpRequest(b"math", b"", (b"m", b"", b"a", b"b")))
    assert [w.call for w in peer.heard()] == [Call(args=(b"a", b"b"))]
    peer.send(worker.finish("1", Answer([b"\xc3", b"\xc2"])))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"\xc3", b"\xc2"))]


def test_a_lost_request_is_polled_for_and_dispatched_again() -> None:
    fabric = make_fabric()
    peer, worker = our_worker(fabric)
    caller, client = our_client(fabric)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call("add", timeout=60.0))))
    fabric.hear("dcp", W)  # the connection broke and lost it
    assert beats(peer, worker, 9) == []
    (work,) = beats(peer, worker, 3)
    peer.send(worker.finish(work.ticket, Answer(5)))
    assert caller.heard()[-1].state == JobState.SUCCEEDED
    assert fabric.kinds("j1").count("dispatched") == 2


def test_a_running_request_is_polled_for_and_keeps_running() -> None:
    fabric = make_fabric()
    peer, worker = our_worker(fabric)
    caller, client = our_client(fabric)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call("add", timeout=60.0))))
    (work,) = beats(peer, worker, 25)
    peer.send(worker.finish(work.ticket, Answer(5)))
    assert caller.heard()[-1].state == JobState.SUCCEEDED
    assert fabric.kinds("j1").count("dispatched") == 1


def test_a_cancel_reaches_our_worker_and_is_confirmed() -> None:
    fabric = make_fabric()
    caller, client, peer, worker, ticket = start(fabric)
    caller.send(client.cancel(JobId("j1")))
    assert peer.heard() == [Stop(ticket)]
    fault = Fault(FaultCode.CANCELLED, "stopped")
    peer.send(worker.finish(ticket, Answer(fault=fault)))
    finished, standing = caller.heard()
    assert finished.state == JobState.CANCELLED
    assert standing == StatusNotice(JobId("j1"), "cancelled", "stopped", "cancelled")


def test_a_result_is_fetched_later_and_another_job_is_unknown() -> None:
    fabric = make_fabric()
    caller, client, peer, worker, ticket = start(fabric)
    caller.send(client.ask(JobId("j1")))
    assert caller.heard() == [StatusNotice(JobId("j1"), "running")]
    peer.send(worker.finish(ticket, Answer(5)))
    caller.heard()
    caller.send(client.ask(JobId("j1")))
    assert caller.heard() == [
        Finished(JobId("j1"), (Answer(5, worker="W1"),), state=JobState.SUCCEEDED)
    ]
    caller.send(client.ask(JobId("j9")))
    assert [n.state for n in caller.heard()] == ["unknown"]


def test_a_call_to_all_workers_is_gathered_into_one_reply() -> None:
    fabric = make_fabric()
    peers = [our_worker(fabric, address, name=address.decode()) for address in (W, W2)]
    caller, client = our_client(fabric)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call("add"), ALL)))
    assert [len(peer.heard()) for peer, _ in peers] == [1, 1]
    assert [type(n) for n in caller.heard()] == [Dispatched]
    peers[1][0].send(peers[1][1].finish("1", Answer(raw=b"\xff\xfe")))
    assert caller.heard() == []
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    peers[0][0].send(peers[0][1].finish("1", Answer(fault=fault)))
    answers = (Answer(raw=b"\xff\xfe", worker="W2"), Answer(fault=fault, worker="W1"))
    assert caller.heard() == [Finished(JobId("j1"), answers, fault, JobState.FAILED)]
    caller.send(client.ask(JobId("j1")))
    (again,) = caller.heard()
    assert set(again.answers) == set(answers)


def test_our_worker_declares_its_credit_and_its_pings_request_no_work() -> None:
    fabric = make_fabric()
    peer, worker = our_worker(fabric, concurrency=2)
    caller, client = our_client(fabric)
    for n in range(4):
        caller.send(client.submit(Submission(JobId(f"j{n}"), "math", Call("add"))))
    assert [w.job for w in peer.heard()] == ["j0", "j1"]
    peer.send(worker.beat())
    assert peer.heard() == [Alive()]
    peer.send(worker.finish("2", Answer(1)))
    assert [w.job for w in peer.heard()] == ["j2"]


def test_our_worker_returns_a_job_and_forwards_one() -> None:
    fabric = make_fabric()
    caller, _, peer, worker, ticket = start(fabric)
    other, second = our_worker(fabric, W2)
    peer.send(worker.hand_back(ticket))
    assert [type(w) for w in other.heard()] == [Assigned]
    register(fabric, b"W3", b"back")
    other.send(second.forward("1", "back", Call(raw=b"rest")))
    (passed,) = hear(fabric, b"W3")
    assert isinstance(passed, DcpRequest)
    assert (passed.client, passed.tail[-1]) == (C, b"rest")
    say(fabric, b"W3", DcpReply(C, (*passed.tail[:-1], b"\xa4done")))
    assert caller.heard()[-1].answers == (Answer("done", worker="W3"),)


def test_when_our_worker_unregisters_its_job_goes_to_another_at_once() -> None:
    fabric = make_fabric()
    _, _, peer, worker, _ = start(fabric)
    other, _ = our_worker(fabric, W2)
    peer.send(worker.leave())
    assert [type(w) for w in other.heard()] == [Assigned]
    assert peer.heard() == []


def test_the_old_job_of_our_restarted_worker_is_dispatched_again() -> None:
    fabric = make_fabric()
    _, _, _, _, _ = start(fabric)
    reborn = DcpWorkerSide("math")
    peer = Peer(fabric, "dcp", W, reborn)
    peer.send(reborn.join())
    assert [type(w) for w in peer.heard()] == [Alive, Assigned]


def test_our_worker_registers_again_on_request_and_keeps_its_jobs() -> None:
    fabric = make_fabric(missed_allowed=2)
    caller, _, peer, worker, ticket = start(fabric)
    fabric.wait(2.5)
    assert peer.heard()[-1] == Dismissed("silent for 2.0 s")
    peer.send(worker.join())
    peer.send(worker.finish(ticket, Answer(5)))
    assert caller.heard()[-1].answers == (Answer(5, worker="W1"),)
    assert fabric.kinds("j1")[-1] == "ended"


def _hold(worker: DcpWorkerSide) -> float | None:
    return worker.hold


def test_our_worker_keeps_to_the_text_with_a_broker_without_notes() -> None:
    worker = DcpWorkerSide("math", width=WIDE)
    (frames,) = worker.join()
    assert decode(frames).width == WIDE
    assert worker.receive(encode(Registration(b"math", width=WIDE))) == [Alive()]
    assert _hold(worker) == 5.0
    assert worker.beat() == [encode(Ping(WIDE))]
    request = DcpRequest(b"math", C, (b"m", b"", b"d"), WIDE)
    (work,) = worker.receive(encode(request))
    assert isinstance(work, Assigned)
    # A ping would request more work than it can run.
    assert worker.beat() == [encode(Pong(WIDE))]
    assert _hold(worker) is None
    assert worker.progress("1", 1) == worker.chunk("1", b"x") == []
    with pytest.raises(Unsupported, match="questions"):
        worker.ask_input("1", "r", "?")
    assert worker.hand_back("1") == [encode(request)]
    worker.receive(encode(request))
    (frames,) = worker.finish("2", Answer(fault=Fault(FaultCode.TASK_FAILED, "boom")))
    reply = decode(frames)
    assert isinstance(reply, DcpReply)
    assert b"boom" in reply.tail[-1]


def test_our_worker_answers_a_ping_and_ignores_what_it_cannot_read() -> None:
    worker = DcpWorkerSide("math")
    assert worker.receive(encode(Ping(WIDE))) == [SendNow(encode(Pong(WIDE))), Alive()]
    assert worker.receive([b"junk"]) == []
    assert worker.receive(encode(DcpReply(C, (b"", b"d")))) == []
    assert worker.finish("9", Answer(1)) == worker.hand_back("9") == []
    assert worker.forward("9", "s", Call()) == worker.progress("9", 1) == []
    with pytest.raises(Unsupported, match="events"):
        worker.publish("t", 1)


def test_our_client_ignores_other_messages_and_raises_unsupported() -> None:
    client = DcpClientSide()
    assert client.hello() == []
    assert client.receive([b"junk"]) == []
    # DagBox's broker sends a queued request back to its own client.
    assert client.receive(encode(ask(client=C))) == []
    assert client.receive(encode(DcpReply(C, (b"other", b"", b"d")))) == []
    with pytest.raises(Unsupported, match="events"):
        client.subscribe(("*",), 0)
    with pytest.raises(Unsupported, match="job id"):
        client.submit(Submission(JobId("j"), "s", Call(), key="k"))


def test_our_client_reads_the_reply_of_a_worker_without_notes() -> None:
    fabric = make_fabric()
    register(fabric, W, b"math")
    caller, client = our_client(fabric)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call(raw=b"hi"))))
    (request,) = hear(fabric, W)
    assert isinstance(request, DcpRequest)
    say(fabric, W, DcpReply(C, request.tail))
    assert caller.heard()[-1] == Finished(
        JobId("j1"), (Answer(raw=b"hi", worker="W1"),), state=JobState.SUCCEEDED
    )
