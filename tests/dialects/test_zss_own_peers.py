"""Our own ZSS client and service around the true broker."""

from dataclasses import replace
from typing import Any

import pytest
from tests.dialects.attached_peers import Peer, beats
from tests.dialects.fabric import Fabric
from tests.dialects.zss_messages import (
    BACK,
    FRONT,
    S2,
    C,
    S,
    ask,
    call,
    fabric,
    heard,
    reply,
    serve,
    up,
)

from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Chunk,
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
from dragoman.dialects.zss.client_side import ZssClientSide
from dragoman.dialects.zss.settings import TERMS
from dragoman.dialects.zss.wire import (
    PRT,
    ZssMessage,
    decode,
    encode,
    read_address,
    write_address,
)
from dragoman.dialects.zss.worker_side import ZssWorkerSide
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL

# --- our own peers ---------------------------------------------------------------------------


def our_worker(broker: Fabric, address: bytes = S, **more: Any) -> tuple[Peer, ZssWorkerSide]:
    side = ZssWorkerSide(["math"], **more)
    peer = Peer(broker, BACK, address, side)
    peer.send(side.join())
    assert peer.heard() == [Alive()]
    return peer, side


ADD = Submission(JobId("j1"), "math", Call("add", (), {"x": 2, "y": 3}, timeout=9.0))


def start(broker: Fabric) -> tuple[Peer, ZssClientSide, Peer, ZssWorkerSide]:
    """Bring one call from our client to our worker; its ticket is 1."""
    peer, worker = our_worker(broker)
    client = ZssClientSide()
    caller = Peer(broker, FRONT, C, client)
    caller.send(client.submit(ADD))
    call_ = Call("add", (), {"x": 2, "y": 3}, timeout=9.0)
    assert peer.heard() == [Assigned("1", JobId("j1"), call_, "MATH", "client#1", 9.0)]
    assert caller.heard() == [Dispatched(JobId("j1"), (WorkerName("PONG#1"),))]
    return caller, client, peer, worker


def test_our_client_calls_our_worker() -> None:
    broker = fabric()
    caller, _, peer, worker = start(broker)
    peer.send(worker.take("1"))
    peer.send(worker.finish("1", Answer(5)))
    answers = (Answer(5, worker="PONG#1"),)
    assert caller.heard() == [Finished(JobId("j1"), answers, state=JobState.SUCCEEDED)]
    submitted = next(r for r in broker.records if r.kind == "submitted")
    assert (submitted.job, submitted.task, submitted.service) == ("j1", "add", "math")


def test_a_repeated_submission_is_the_same_job() -> None:
    broker = fabric()
    caller, client, peer, worker = start(broker)
    caller.send(client.submit(ADD))
    assert peer.heard() == []
    peer.send(worker.finish("1", Answer(5)))
    assert caller.heard()[-1].answers == (Answer(5, worker="PONG#1"),)


def test_a_stream_of_replies_travels_in_parts() -> None:
    broker = fabric()
    caller, client, peer, worker = start(broker)
    peer.send(worker.progress("1", {"done": 1}))
    peer.send(worker.chunk("1", b"\x00bytes"))
    peer.send(worker.ask_input("1", "r1", "sure?"))
    assert caller.heard() == [
        Progress(JobId("j1"), {"done": 1}, "PONG#1"),
        Chunk(JobId("j1"), b"\x00bytes", "PONG#1"),
        InputAsked(JobId("j1"), "r1", "sure?", "PONG#1"),
    ]
    caller.send(client.give_input(JobId("j1"), "r1", "yes", "PONG#1"))
    assert peer.heard() == [InputGiven("1", "r1", "yes")]


def test_a_stream_of_requests_travels_in_parts() -> None:
    broker = fabric()
    caller, _, peer, worker = start(broker)
    address = write_address("MATH", "ADD", job="j1")
    for n in (1, 2):
        caller.send([encode(ZssMessage(PRT, b"j1", address, status=b"206", payload=bytes([n])))])
    assert peer.heard() == [InputGiven("1", "", 1), InputGiven("1", "", 2)]
    peer.send(worker.finish("1", Answer(3)))
    caller.heard()
    caller.send([encode(ZssMessage(PRT, b"j1", address, status=b"206", payload=b"\x03"))])
    (told,) = caller.heard()
    assert isinstance(told, StatusNotice)
    assert "discarded" in told.detail


def test_a_client_that_reads_no_parts_gets_one_message() -> None:
    broker = fabric()
    peer, worker = our_worker(broker)
    call(broker, C, ask(address=write_address("MATH", "ADD")))
    assert [type(w) for w in peer.heard()] == [Assigned]
    assert worker.progress("1", 1) == worker.chunk("1", b"x") == []
    with pytest.raises(Unsupported, match="reads no parts"):
        worker.ask_input("1", "r", "?")
    # A part would be taken for the reply, so the broker drops it.
    (request,) = worker._requests.values()
    peer.send([encode(replace(request, kind=PRT, status=b"102"))])
    assert heard(broker, FRONT, C) == []
    peer.send(worker.finish("1", Answer(5)))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"200"]


def test_a_service_that_reads_no_parts_is_sent_none() -> None:
    broker = fabric()
    up(broker, S, "math")
    client = ZssClientSide()
    caller = Peer(broker, FRONT, C, client)
    caller.send(client.submit(ADD))
    assert len(heard(broker, BACK, S)) == 1
    caller.send(client.give_input(JobId("j1"), "r", "x", ""))
    caller.send(client.cancel(JobId("j1")))
    assert heard(broker, BACK, S) == []
    assert caller.heard()[-1].state == "cancelled"


def test_a_fault_of_our_worker_reaches_our_client_by_name() -> None:
    broker = fabric()
    caller, _, peer, worker = start(broker)
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    peer.send(worker.finish("1", Answer(fault=fault)))
    expected = Finished(
        JobId("j1"), (Answer(fault=fault, worker="PONG#1"),), fault, JobState.FAILED
    )
    assert caller.heard() == [expected]


def test_a_lost_request_is_polled_for_and_dispatched_again() -> None:
    broker = fabric()
    peer, worker = our_worker(broker)
    client = ZssClientSide()
    caller = Peer(broker, FRONT, C, client)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call("add", timeout=60.0))))
    broker.hear(BACK, S)  # a connection broke with it
    assert beats(peer, worker, 9) == []
    (work,) = beats(peer, worker, 3)
    peer.send(worker.finish(work.ticket, Answer(5)))
    assert caller.heard()[-1].state == JobState.SUCCEEDED
    assert broker.kinds("j1").count("dispatched") == 2


def test_a_running_request_is_polled_for_and_keeps_running() -> None:
    broker = fabric()
    peer, worker = our_worker(broker)
    client = ZssClientSide()
    caller = Peer(broker, FRONT, C, client)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call("add", timeout=60.0))))
    (work,) = beats(peer, worker, 25)
    peer.send(worker.finish(work.ticket, Answer(5)))
    assert caller.heard()[-1].state == JobState.SUCCEEDED
    assert broker.kinds("j1").count("dispatched") == 1


def test_a_poll_with_an_address_that_cannot_be_written_again_is_answered() -> None:
    odd = b"\x82\xa3sid\xa4MATH\xa1n\xcf" + b"\xff" * 8
    poll = encode(ZssMessage(PRT, b"r", odd, b"", b"102", b"\xc0", identity=C))
    (told,) = ZssWorkerSide(["math"]).receive(poll)
    assert isinstance(told, SendNow)
    assert decode(told.frames).address == odd


def test_a_cancel_reaches_our_worker_and_is_confirmed() -> None:
    broker = fabric()
    caller, client, peer, worker = start(broker)
    caller.send(client.cancel(JobId("j1")))
    assert peer.heard() == [Stop("1")]
    peer.send(worker.finish("1", Answer(fault=Fault(FaultCode.CANCELLED, "stopped"))))
    finished, standing = caller.heard()
    assert finished.state == JobState.CANCELLED
    assert standing == StatusNotice(JobId("j1"), "cancelled", "stopped")


def test_a_result_is_fetched_later_and_another_job_is_unknown() -> None:
    broker = fabric()
    caller, client, peer, worker = start(broker)
    caller.send(client.ask(JobId("j1")))
    assert caller.heard() == [StatusNotice(JobId("j1"), "running")]
    peer.send(worker.finish("1", Answer(5)))
    caller.heard()
    caller.send(client.ask(JobId("j1")))
    assert caller.heard() == [Finished(JobId("j1"), (Answer(5),), state=JobState.SUCCEEDED)]
    caller.send(client.ask(JobId("j9")))
    assert [n.state for n in caller.heard()] == ["unknown"]


def test_a_call_to_all_instances_is_gathered_into_one_reply() -> None:
    broker = fabric()
    peers = [our_worker(broker, address) for address in (S, S2)]
    client = ZssClientSide()
    caller = Peer(broker, FRONT, C, client)
    caller.send(client.submit(Submission(JobId("j1"), "math", Call("add"), ALL)))
    assert [len(peer.heard()) for peer, _ in peers] == [1, 1]
    caller.heard()
    peers[1][0].send(peers[1][1].finish("1", Answer(raw=b"\xff")))
    assert caller.heard() == []
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    peers[0][0].send(peers[0][1].finish("1", Answer(fault=fault)))
    answers = (Answer(raw=b"\xff", worker="PONG#2"), Answer(fault=fault, worker="PONG#1"))
    assert caller.heard() == [Finished(JobId("j1"), answers, fault, JobState.FAILED)]
    caller.send(client.ask(JobId("j1")))
    (again,) = caller.heard()
    assert set(again.answers) == set(answers)


def test_our_worker_says_how_much_it_can_hold() -> None:
    broker = fabric(services={"math": replace(TERMS, patience=5.0)})
    peer, worker = our_worker(broker, concurrency=2)
    for n in range(4):
        call(broker, C, ask(b"r%d" % n, address=write_address("MATH", "x")))
    assert len(peer.heard()) == 2
    peer.send(worker.finish("1", Answer(1)))
    assert len(peer.heard()) == 1


def test_our_worker_returns_a_job_and_forwards_one() -> None:
    broker = fabric()
    caller, _, peer, worker = start(broker)
    other, other_side = our_worker(broker, S2)
    peer.send(worker.hand_back("1"))
    assert [type(w) for w in other.heard()] == [Assigned]
    up(broker, b"BACK#1", "back")
    other.send(other_side.forward("1", "back", Call("rest", ("of it",))))
    (passed,) = heard(broker, BACK, b"BACK#1")
    assert read_address(passed.address).verb == "rest"
    serve(broker, b"BACK#1", reply(passed, payload=b"\xa4done"))
    assert caller.heard()[-1].answers == (Answer("done", worker="BACK#1"),)
    assert broker.kinds("j1")[-3:] == ["forwarded", "dispatched", "ended"]


def test_our_worker_leaves_with_down_and_its_heartbeat_registers_it_anywhere() -> None:
    broker = fabric()
    side = ZssWorkerSide(["math", "more"])
    peer = Peer(broker, BACK, S, side)
    peer.send(side.beat())
    assert peer.heard() == [Alive(), Alive()]
    call(broker, C, ask(address=write_address("MORE", "x")))
    assert [type(w) for w in peer.heard()] == [Assigned]
    peer.send(side.finish("1", Answer(1)))
    peer.send(side.leave())
    assert peer.heard() == [Alive(), Alive()]
    call(broker, C, ask(b"r9", address=write_address("MATH", "x")))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"200", b"404"]


def test_the_old_job_of_our_restarted_worker_is_dispatched_again() -> None:
    broker = fabric()
    start(broker)
    reborn = ZssWorkerSide(["math"])
    peer = Peer(broker, BACK, S, reborn)
    peer.send(reborn.join())
    assert [type(w) for w in peer.heard()] == [Alive, Assigned]


def test_our_worker_answers_what_it_cannot_read_and_ignores_what_is_not_for_it() -> None:
    worker = ZssWorkerSide(["math"])
    (said,) = worker.receive(encode(ask(identity=C, payload=b"\xc1")))
    assert isinstance(said, SendNow)
    assert decode(said.frames).status == b"400"
    for frames in ([b"junk"], encode(ask()), encode(reply(ask(identity=C)))):
        assert worker.receive(frames) == []
    assert worker.receive(encode(replace(ask(identity=C), kind=PRT))) == []
    assert worker.finish("9", Answer(1)) == worker.progress("9", 1) == []
    assert worker.forward("9", "s", Call()) == []
    with pytest.raises(Unsupported, match="events"):
        worker.publish("t", 1)


def test_our_worker_says_so_when_its_result_has_no_form() -> None:
    worker = ZssWorkerSide(["math"])
    worker.receive(encode(ask(identity=C)))
    (frames,) = worker.finish("1", Answer(2**60 + 1))
    assert decode(frames).status == b"422"


def test_our_client_ignores_what_is_not_for_it_and_says_what_zss_lacks() -> None:
    client = ZssClientSide()
    assert client.hello() == []
    for frames in ([b"junk"], encode(ask()), encode(reply(ask(b"\xff")))):
        assert client.receive(frames) == []
    with pytest.raises(Unsupported, match="events"):
        client.subscribe(("*",), 0)
    with pytest.raises(Unsupported, match="job id"):
        client.submit(Submission(JobId("j"), "s", Call(), key="k"))


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (FaultCode.NO_WORKER, JobState.FAILED),
        (FaultCode.JOB_TIMEOUT, JobState.EXPIRED),
        (FaultCode.EXHAUSTED, JobState.DEAD),
    ],
)
def test_our_client_knows_how_a_job_ended(code: FaultCode, state: JobState) -> None:
    client = ZssClientSide()
    broker = fabric()
    caller = Peer(broker, FRONT, C, client)
    caller.send(client.submit(Submission(JobId("j1"), "ghost", Call("x"))))
    (finished,) = caller.heard()
    assert finished.fault.code is FaultCode.NO_WORKER
    worker = ZssWorkerSide(["math"])
    worker.receive(encode(ask(b"j1", identity=C)))
    (frames,) = worker.finish("1", Answer(fault=Fault(code, "w")))
    (notice,) = client.receive(encode(replace(decode(frames), identity=None)))
    assert isinstance(notice, Finished)
    assert notice.state is state
