"""MDP peers with the real broker: plain ones of both versions, and our own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.attached_peers import Peer, beats
from tests.dialects.fabric import Fabric
from tests.dialects.mdp_messages import C2, W2, C, W, hear, make_fabric, register, say

from dragoman.dialects.mdp.client_side import MdpClientSide
from dragoman.dialects.mdp.seeds import SEEDS
from dragoman.dialects.mdp.wire import (
    V1,
    V2,
    ClientReply,
    ClientRequest,
    MdpDisconnect,
    MdpHeartbeat,
    MdpReady,
    WorkerReply,
    WorkerRequest,
    decode,
    encode,
)
from dragoman.dialects.mdp.worker_side import MdpWorkerSide
from dragoman.dialects.peer_sides import (
    Assigned,
    Chunk,
    Dismissed,
    Dispatched,
    Finished,
    InputAsked,
    InputGiven,
    Progress,
    Queued,
    StatusNotice,
    Stop,
    Submission,
    Unsupported,
)
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL


def requested(fabric: Fabric, worker: bytes) -> WorkerRequest:
    (message,) = (m for m in hear(fabric, worker) if isinstance(m, WorkerRequest))
    return message


def final(fabric: Fabric, client: bytes) -> ClientReply:
    *_, message = hear(fabric, client, is_client=True)
    assert isinstance(message, ClientReply)
    assert message.is_final
    return message


# --- plain peers -----------------------------------------------------------------------------


@pytest.mark.parametrize("client", [V1, V2])
@pytest.mark.parametrize("worker", [V1, V2])
def test_a_request_and_its_reply_cross_between_the_versions(client: int, worker: int) -> None:
    fabric = make_fabric()
    register(fabric, W, version=worker)
    say(fabric, C, ClientRequest(b"echo", (b"a", b"", b"c"), client))
    request = requested(fabric, W)
    assert (request.body, request.version) == ((b"a", b"", b"c"), worker)
    say(fabric, W, WorkerReply(request.client, (b"x", b"y"), version=worker))
    reply = ClientReply(b"echo", (b"x", b"y"), version=client)
    assert hear(fabric, C, is_client=True) == [reply]


def test_a_worker_gets_one_request_at_a_time_and_the_least_recently_used_is_next() -> None:
    fabric = make_fabric()
    register(fabric, W)
    register(fabric, W2)
    for number in range(3):
        say(fabric, C, ClientRequest(b"echo", (b"%d" % number,)))
    first, second = requested(fabric, W), requested(fabric, W2)
    assert (first.body, second.body) == ((b"0",), (b"1",))
    say(fabric, W2, WorkerReply(second.client, (b"done",)))
    assert requested(fabric, W2).body == (b"2",)


def test_pieces_of_a_stream_reach_clients_of_the_second_version_only() -> None:
    fabric = make_fabric()
    register(fabric, W)
    for client, version in ((C, V2), (C2, V1)):
        say(fabric, client, ClientRequest(b"echo", (b"q",), version))
        request = requested(fabric, W)
        say(
            fabric,
            W,
            WorkerReply(request.client, (b"one",), is_final=False),
            WorkerReply(request.client, (b"two",)),
        )
    assert hear(fabric, C, is_client=True) == [
        ClientReply(b"echo", (b"one",), is_final=False),
        ClientReply(b"echo", (b"two",)),
    ]
    assert hear(fabric, C2, is_client=True) == [ClientReply(b"echo", (b"two",), version=V1)]


def test_an_unregistered_worker_is_disconnected() -> None:
    fabric = make_fabric()
    say(fabric, W, MdpHeartbeat(version=V1))
    assert hear(fabric, W) == [MdpDisconnect(V1)]
    say(fabric, W, WorkerReply(b"1/j", (b"x",)))
    assert hear(fabric, W) == [MdpDisconnect()]
    assert fabric.kinds() == ["rejected"]


def test_a_second_ready_is_unexpected_and_ends_the_registration() -> None:
    fabric = make_fabric()
    register(fabric, W)
    say(fabric, W, MdpReady(b"echo"))
    assert hear(fabric, W) == [MdpDisconnect()]
    say(fabric, W, MdpHeartbeat())
    assert hear(fabric, W) == [MdpDisconnect()]


def test_a_message_of_the_wrong_direction_disconnects_a_worker_and_is_malformed_of_others() -> None:
    fabric = make_fabric()
    register(fabric, W)
    say(fabric, W, WorkerRequest(b"c", (b"x",)))
    assert hear(fabric, W) == [MdpDisconnect()]
    say(fabric, C, WorkerRequest(b"c", (b"x",)))
    assert fabric.malformed == ["a message that only a broker sends"]


def test_the_broker_sends_heartbeats_and_a_silent_idle_worker_is_disconnected() -> None:
    fabric = make_fabric(beat_every=1.0, missed_allowed=3)
    register(fabric, W)
    fabric.wait(10.0)
    heard = hear(fabric, W)
    assert MdpHeartbeat() in heard
    assert heard[-1] == MdpDisconnect()


def test_a_silent_busy_worker_keeps_its_job_until_the_longer_limit() -> None:
    fabric = make_fabric(beat_every=1.0, missed_allowed=3, missed_allowed_busy=60)
    register(fabric, W)
    say(fabric, C, ClientRequest(b"echo", (b"q",)))
    request = requested(fabric, W)
    fabric.wait(30.0)
    say(fabric, W, WorkerReply(request.client, (b"late but welcome",)))
    assert final(fabric, C).body == (b"late but welcome",)


def test_when_a_worker_disconnects_its_job_goes_to_another_at_once() -> None:
    fabric = make_fabric()
    register(fabric, W)
    say(fabric, C, ClientRequest(b"echo", (b"q",)))
    request = requested(fabric, W)
    say(fabric, W, MdpDisconnect())
    register_with_work(fabric, W2)
    say(fabric, W, WorkerReply(request.client, (b"too late",)))
    assert hear(fabric, W) == [MdpDisconnect()]


def register_with_work(fabric: Fabric, address: bytes) -> None:
    say(fabric, address, MdpReady(b"echo"))
    assert requested(fabric, address).body == (b"q",)


def test_a_reply_that_matches_no_request_is_recorded() -> None:
    fabric = make_fabric()
    register(fabric, W)
    say(fabric, W, WorkerReply(b"7/never", (b"x",)))
    assert "rejected" in fabric.kinds()
    assert hear(fabric, W) == []


def test_a_request_without_a_worker_ends_in_an_empty_reply_or_in_silence() -> None:
    for settings, heard in (({}, [ClientReply(b"echo", (b"",))]), ({"faults": "silent"}, [])):
        fabric = make_fabric(**settings)
        say(fabric, C, ClientRequest(b"echo", (b"q",)))
        fabric.wait(61.0)
        assert hear(fabric, C, is_client=True) == heard
        assert fabric.kinds()[-1] == "ended"


def test_a_worker_may_not_register_a_reserved_service() -> None:
    fabric = make_fabric()
    for service in (b"mmi.service", b"titanic.request", b""):
        say(fabric, W, MdpReady(service))
        assert hear(fabric, W) == [MdpDisconnect()]


# --- our own peers ---------------------------------------------------------------------------


class Own:
    """Our client and our worker on a fabric."""

    def __init__(self, concurrency: int = 1, **settings: Any) -> None:
        self.fabric = make_fabric(**settings)
        self.client_side, self.worker_side = (
            MdpClientSide(),
            MdpWorkerSide("echo", name="w1", concurrency=concurrency),
        )
        self.client = Peer(self.fabric, "mdp", C, self.client_side)
        self.worker = Peer(self.fabric, "mdp", W, self.worker_side)
        self.worker.send(self.worker_side.join())
        self.worker.heard()

    def submit(self, job: str = "j1", **more: Any) -> None:
        call = Call("shout", ("hi",), {"n": 1}, timeout=more.pop("timeout", None))
        self.client.send(self.client_side.submit(Submission(JobId(job), "echo", call, **more)))

    def assigned(self) -> Assigned:
        (work,) = (n for n in self.worker.heard() if isinstance(n, Assigned))
        return work

    def work(self, frames: Any) -> None:
        self.worker.send(frames)


def test_our_client_calls_our_worker() -> None:
    own = Own()
    own.submit(timeout=5.0)
    work = own.assigned()
    assert (work.job, work.call, work.service) == ("j1", Call("shout", ("hi",), {"n": 1}), "echo")
    assert work.client == "mdp/C1"
    assert work.timeout is not None
    own.work(own.worker_side.finish(work.ticket, Answer({"a": [1, b"x"]})))
    heard = own.client.heard()
    assert heard[0] in (Queued(JobId("j1")), Dispatched(JobId("j1"), (WorkerName("w1"),)))
    answer = Answer({"a": [1, b"x"]}, worker="w1")
    assert heard[-1] == Finished(JobId("j1"), (answer,), state=JobState.SUCCEEDED)


def test_progress_chunks_questions_and_input_cross() -> None:
    own = Own()
    own.submit()
    work = own.assigned()
    own.work(own.worker_side.progress(work.ticket, {"done": 1}))
    own.work(own.worker_side.chunk(work.ticket, b"7"))
    own.work(own.worker_side.ask_input(work.ticket, "q1", "sure?"))
    job = JobId("j1")
    assert own.client.heard()[-3:] == [
        Progress(job, {"done": 1}, "w1"),
        Chunk(job, b"7", "w1"),
        InputAsked(job, "q1", "sure?", "w1"),
    ]
    own.client.send(own.client_side.give_input(job, "q1", "yes", "w1"))
    assert own.worker.heard() == [InputGiven(work.ticket, "q1", "yes")]


def test_a_fault_and_a_cancel_reach_the_other_end() -> None:
    own = Own(concurrency=2)
    own.submit("j1")
    failing = own.assigned()
    fault = Fault(FaultCode.TASK_FAILED, "out of paper")
    own.work(own.worker_side.finish(failing.ticket, Answer(fault=fault)))
    assert own.client.heard()[-1].fault == fault
    own.submit("j2")
    running = own.assigned()
    own.client.send(own.client_side.cancel(JobId("j2")))
    assert own.worker.heard() == [Stop(running.ticket)]
    cancelled = Answer(fault=Fault(FaultCode.CANCELLED))
    own.work(own.worker_side.finish(running.ticket, cancelled))
    heard = own.client.heard()
    assert any(isinstance(n, StatusNotice) and n.state == "cancelled" for n in heard)


def test_the_same_job_and_the_same_key_run_once() -> None:
    own = Own(concurrency=4)
    own.submit("j1", key="k")
    work = own.assigned()
    own.submit("j1", key="k")
    own.submit("j2", key="k")
    assert own.worker.heard() == []
    own.work(own.worker_side.finish(work.ticket, Answer(1)))
    assert [n.job for n in own.client.heard() if isinstance(n, Finished)] == ["j2"]


def test_a_result_is_asked_for_later_and_an_unknown_job_is_unknown() -> None:
    own = Own()
    own.submit()
    own.work(own.worker_side.finish(own.assigned().ticket, Answer(5)))
    own.client.heard()
    own.client.send(own.client_side.ask(JobId("j1")))
    own.client.send(own.client_side.ask(JobId("never")))
    found, unknown = own.client.heard()
    assert found == Finished(JobId("j1"), (Answer(5, worker="w1"),), state=JobState.SUCCEEDED)
    assert (unknown.job, unknown.state) == ("never", "unknown")


def test_a_call_to_all_workers_is_gathered() -> None:
    own = Own()
    second = MdpWorkerSide("echo", name="w2")
    other = Peer(own.fabric, "mdp", W2, second)
    other.send(second.join())
    other.heard()
    own.submit(target=ALL)
    own.work(own.worker_side.finish(own.assigned().ticket, Answer(1)))
    (work,) = (n for n in other.heard() if isinstance(n, Assigned))
    other.send(second.finish(work.ticket, Answer(fault=Fault(FaultCode.TASK_FAILED, "no"))))
    ended = own.client.heard()[-1]
    assert {a.worker: a.fault is None for a in ended.answers} == {"w1": True, "w2": False}


def test_our_worker_returns_a_job_and_forwards_one() -> None:
    own = Own()
    second = MdpWorkerSide("echo", name="w2")
    other = Peer(own.fabric, "mdp", W2, second)
    own.submit()
    other.send(second.join())
    own.work(own.worker_side.hand_back(own.assigned().ticket))
    (work,) = (n for n in other.heard() if isinstance(n, Assigned))
    third = MdpWorkerSide("other", name="w3")
    last = Peer(own.fabric, "mdp", b"W3", third)
    last.send(third.join())
    last.heard()
    other.send(second.forward(work.ticket, "other", Call("again")))
    (moved,) = (n for n in last.heard() if isinstance(n, Assigned))
    assert (moved.job, moved.call, moved.service) == ("j1", Call("again"), "other")


def test_a_lost_request_is_polled_for_and_dispatched_again() -> None:
    own = Own(poll_every=3.0)
    own.submit()
    own.fabric.hear("mdp", W)  # the connection broke and lost it
    works = beats(own.worker, own.worker_side, 10)
    assert [type(n) for n in works] == [Assigned]


def test_our_worker_that_registers_again_keeps_its_job_and_a_restarted_one_gets_it_again() -> None:
    own = Own()
    own.submit()
    work = own.assigned()
    own.worker.send(own.worker_side.join())
    assert not [n for n in own.worker.heard() if isinstance(n, Assigned)]
    fresh = MdpWorkerSide("echo", name="w1")
    own.worker.side = fresh
    own.worker.send(fresh.join())
    again = own.assigned()
    assert (again.job, again.ticket) == (work.job, "2/j1")


def test_our_worker_leaves_and_is_told_when_the_broker_does_not_know_it() -> None:
    own = Own()
    own.worker.send(own.worker_side.leave())
    own.worker.send(own.worker_side.beat())
    assert [type(n) for n in own.worker.heard()] == [Dismissed]


def test_our_worker_keeps_to_the_text_with_another_broker() -> None:
    side = MdpWorkerSide("echo")
    (work,) = side.receive(encode(WorkerRequest(b"client", (b"ping",))))
    assert isinstance(work, Assigned)
    assert work.call == Call(raw=b"ping")
    assert [decode(f) for f in side.chunk(work.ticket, b"x")] == [
        WorkerReply(b"client", (b"x",), is_final=False)
    ]
    with pytest.raises(Unsupported):
        side.ask_input(work.ticket, "q", "?")
    assert side.progress(work.ticket, 1) == []
    assert [decode(f) for f in side.finish(work.ticket, Answer(raw=b"pong"))] == [
        WorkerReply(b"client", (b"pong",))
    ]


def test_what_mdp_has_no_message_for_is_refused() -> None:
    with pytest.raises(Unsupported):
        MdpClientSide().subscribe(("*",), 0)
    with pytest.raises(Unsupported):
        MdpWorkerSide("echo").publish("t", 1)


# --- arbitrary messages ----------------------------------------------------------------------

frames = st.lists(st.binary(max_size=20), max_size=6) | st.sampled_from([list(s) for s in SEEDS])


@given(st.lists(st.tuples(st.sampled_from([C, C2, W, W2]), frames), max_size=12))
def test_no_message_breaks_the_broker(script: list[tuple[bytes, list[bytes]]]) -> None:
    fabric = make_fabric()
    for address, message in script:
        fabric.say("mdp", address, message)
    fabric.wait(70.0)


@given(frames)
def test_our_peers_survive_any_broker(message: list[bytes]) -> None:
    assert isinstance(MdpClientSide().receive(message), list)
    assert isinstance(MdpWorkerSide("echo").receive(message), list)
