"""Messages to MDP workers."""

import pytest

from dragoman.core.effects import (
    Dismiss,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendWork,
)
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import Send
from dragoman.dialects.mdp.deliveries import MdpDeliveries
from dragoman.dialects.mdp.settings import MdpSettings
from dragoman.dialects.mdp.wire import (
    V1,
    V2,
    MdpDisconnect,
    MdpHeartbeat,
    Message,
    WorkerRequest,
    decode,
)
from dragoman.dialects.mdp.workers import MdpWorkers
from dragoman.dialects.notes import read_note
from dragoman.dialects.registry import body_codecs
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.names import JobId, PeerId, ServiceName

JOB, W, C, ECHO = JobId("j1"), PeerId("mdp/W1"), PeerId("nfp/c1"), ServiceName("echo")
CODECS = body_codecs()


def make(has_notes: bool = False, version: int = V2) -> MdpDeliveries:
    workers = MdpWorkers()
    workers.join(b"W1", W, b"echo", version, has_notes)
    return MdpDeliveries(CODECS, MdpSettings(), workers)


def work(body: Body, **more: object) -> SendWork:
    return SendWork(W, JOB, 2, ECHO, C, body, **more)  # type: ignore[arg-type]


def messages(sends: list[Send]) -> list[Message]:
    assert {send.address for send in sends} <= {b"W1"}
    return [decode(send.frames) for send in sends]


def test_a_request_of_mdp_passes_byte_for_byte_in_the_workers_version() -> None:
    sends = make(version=V1).render(work(Body("mdp", (b"a", b""))), 0.0)
    assert messages(sends) == [WorkerRequest(b"2/j1", (b"a", b""), V1)]


def test_a_request_of_another_dialect_is_converted_and_our_worker_gets_a_note() -> None:
    body = CODECS["nfp"].write_call(Call("shout", ("hi",)))
    (sent,) = messages(make(has_notes=True).render(work(body, run_until=7.5), 5.0))
    assert isinstance(sent, WorkerRequest)
    note = read_note(sent.body[0])
    assert note is not None
    assert (note["kind"], note["job"], note["timeout"]) == ("work", "j1", 2.5)
    assert CODECS["mdp"].read_call(Body("mdp", sent.body[1:])) == Call("shout", ("hi",))


def test_a_plain_worker_gets_requests_and_heartbeats_only() -> None:
    plain = make()
    plain.render(work(Body("mdp", (b"q",))), 0.0)
    assert plain.render(SendCancel(W, JOB, 2, C), 1.0) == []
    assert plain.render(SendPoll(W, JOB, 2, C), 1.0) == []
    with pytest.raises(Unmappable):
        plain.render(SendInput(W, JOB, C, CODECS["nfp"].write_answer(Answer(1))), 1.0)
    assert messages(plain.render(SendBeat(W), 100.0)) == [MdpHeartbeat()]


def test_our_worker_is_polled_for_a_silent_request() -> None:
    ours = make(has_notes=True)
    ours.render(work(Body("mdp", (b"q",))), 0.0)
    assert messages(ours.render(SendBeat(W), 5.0)) == [MdpHeartbeat()]
    beat, poll = messages(ours.render(SendBeat(W), 11.0))
    assert beat == MdpHeartbeat()
    assert isinstance(poll, WorkerRequest)
    assert read_note(poll.body[0]) == {"kind": "poll"}


def test_a_worker_that_left_gets_nothing_and_a_dismissed_one_a_disconnect() -> None:
    one = make()
    assert messages(one.render(Dismiss(W, "silent"), 0.0)) == [MdpDisconnect()]
    for effect in (Dismiss(W, "again"), SendBeat(W), work(Body("mdp", (b"q",)))):
        assert one.render(effect, 0.0) == []


def test_effects_for_clients_are_ignored() -> None:
    assert make().render(SendReply(C, JOB, ReplyKind.QUEUED, ECHO), 0.0) == []
