"""A restarted broker recognises the replies to what an earlier process sent.

Real broker sides and worker sides in memory. "Restart" means: fold the records into a new broker,
make new sides, and let the same worker go on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendWork
from dragoman.core.events import Event, JobSubmitted, ReplyKind
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import Frames, Send
from dragoman.dialects.dcp.broker_side import DcpBrokerSide
from dragoman.dialects.dcp.wire import DcpReply, DcpRequest, Registration, decode, encode
from dragoman.dialects.dcp.worker_side import DcpWorkerSide
from dragoman.dialects.mdp.broker_side import MdpBrokerSide
from dragoman.dialects.mdp.wire import MdpReady, WorkerReply, WorkerRequest
from dragoman.dialects.mdp.wire import decode as decode_mdp
from dragoman.dialects.mdp.wire import encode as encode_mdp
from dragoman.dialects.mdp.worker_side import MdpWorkerSide
from dragoman.dialects.peer_sides import Assigned, SendNow
from dragoman.dialects.registry import body_codecs
from dragoman.dialects.zss.broker_side import broker_sides
from dragoman.dialects.zss.worker_side import ZssWorkerSide
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, peer_id, text_of
from dragoman.model.record import Kind, Record
from dragoman.server.side_recovery import SideRecovery

CODECS = body_codecs()
JOB = JobId("job-1")
CLIENT = PeerId("http/c")


class Stage:
    """One broker after another on the same records, and one link of workers."""

    def __init__(self, make_sides: Callable[[], dict[str, Any]], link: str) -> None:
        self.make_sides = make_sides
        self.link = link
        self.records: list[Record] = []
        self.bodies: dict[int, Body] = {}
        self.to_worker: list[Frames] = []
        self.effects: list[Effect] = []
        self.now = 0.0
        self.address = b"w"
        self.restart()

    def restart(self) -> None:
        """Start a new process; only the records survive."""
        self.sides = self.make_sides()
        store = fold(self.records)
        self.broker, first = resume(store, self.now)
        self.recovery = SideRecovery(self.sides, self.broker, self.bodies.get)
        self.recovery.restore(self.now)
        self.to_worker.clear()
        self.carry_out(first)

    def submit(self) -> None:
        body = CODECS["http"].write_call(Call("add", (), {"x": 2}))
        self.handle(JobSubmitted(JOB, CLIENT, ServiceName(service_of(self.link)), body))

    def hear(self, messages: Sequence[Frames]) -> None:
        """Give the broker what the worker sends."""
        for frames in messages:
            for item in self.sides[self.link].receive(self.address, frames, self.now):
                if isinstance(item, Send):
                    self.to_worker.append(item.frames)
                else:
                    self.handle(item)

    def handle(self, event: Event) -> None:
        self.carry_out(self.broker.handle(event, self.now))

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, Append):
                self.records.append(effect.record)
                if effect.body is not None:
                    self.bodies[effect.record.seq] = effect.body
            elif getattr(effect, "worker", getattr(effect, "peer", "")) == peer_id(
                self.link, text_of(self.address)
            ):
                if isinstance(effect, SendWork) and effect.body_seq:
                    effect = replace(effect, body=self.bodies[effect.body_seq])
                self.to_worker += [s.frames for s in self.sides[self.link].render(effect, self.now)]

    def take(self) -> list[Frames]:
        taken, self.to_worker = self.to_worker, []
        return taken

    @property
    def kinds(self) -> list[str]:
        return [record.kind for record in self.records if record.job == JOB]

    @property
    def results(self) -> list[SendReply]:
        replies = (e for e in self.effects if isinstance(e, SendReply))
        return [reply for reply in replies if reply.kind is ReplyKind.FINAL]


def service_of(link: str) -> str:
    return "math"


def dcp_sides() -> dict[str, Any]:
    return {"dcp": DcpBrokerSide(codecs=CODECS, ids=iter("abcdef").__next__)}


def zss_sides() -> dict[str, Any]:
    front, back = broker_sides(codecs=CODECS, ids=iter("abcdef").__next__)
    return {front.link: front, back.link: back}


def mdp_sides() -> dict[str, Any]:
    return {"mdp": MdpBrokerSide(codecs=CODECS, ids=iter("abcdef").__next__)}


CASES = [
    pytest.param(mdp_sides, "mdp", lambda: MdpWorkerSide("math", name="w"), id="mdp"),
    pytest.param(dcp_sides, "dcp", lambda: DcpWorkerSide("math", name="w"), id="dcp"),
    pytest.param(zss_sides, "zss_backend", lambda: ZssWorkerSide(["math"]), id="zss"),
]


def running(sides: Callable[[], dict[str, Any]], link: str, worker: Any) -> tuple[Stage, str]:
    """Return a stage whose worker runs the job, and the worker's ticket of it."""
    stage = Stage(sides, link)
    stage.hear(worker.join())
    stage.submit()
    notices = [notice for frames in stage.take() for notice in worker.receive(frames)]
    (ticket,) = [notice.ticket for notice in notices if isinstance(notice, Assigned)]
    return stage, ticket


def pump(stage: Stage, worker: Any) -> None:
    """Carry messages both ways until neither has more to send."""
    while messages := stage.take():
        for frames in messages:
            notices = worker.receive(frames)
            stage.hear([n.frames for n in notices if isinstance(n, SendNow)])


@pytest.mark.parametrize(("sides", "link", "make"), CASES)
def test_a_result_after_a_restart_is_applied(
    sides: Callable[[], dict[str, Any]], link: str, make: Callable[[], Any]
) -> None:
    worker = make()
    stage, ticket = running(sides, link, worker)
    stage.restart()
    stage.hear(worker.beat())
    stage.hear(worker.finish(ticket, Answer(5)))
    assert [r.state for r in stage.results] == [JobState.SUCCEEDED]
    assert stage.kinds.count(Kind.DISPATCHED) == 1


@pytest.mark.parametrize(("sides", "link", "make"), CASES)
def test_a_result_that_was_lost_with_the_broker_is_sent_again(
    sides: Callable[[], dict[str, Any]], link: str, make: Callable[[], Any]
) -> None:
    worker = make()
    stage, ticket = running(sides, link, worker)
    worker.finish(ticket, Answer(5))  # into the void: the broker is down
    stage.restart()
    stage.hear(worker.join())
    assert Kind.REQUEUED not in stage.kinds
    stage.hear(worker.confirm())
    pump(stage, worker)
    assert [r.state for r in stage.results] == [JobState.SUCCEEDED]
    assert stage.kinds.count(Kind.DISPATCHED) == 1
    # The next question settles it: nothing is kept for ever.
    stage.hear(worker.confirm())
    pump(stage, worker)
    assert worker.confirm() == []


@pytest.mark.parametrize(("sides", "link", "make"), CASES)
def test_a_worker_that_restarted_too_gets_the_job_again(
    sides: Callable[[], dict[str, Any]], link: str, make: Callable[[], Any]
) -> None:
    stage, _ = running(sides, link, make())
    stage.restart()
    stage.hear(make().join())
    assert stage.kinds.count(Kind.DISPATCHED) == 2


def test_a_raw_dcp_worker_answers_after_a_restart() -> None:
    stage = Stage(dcp_sides, "dcp")
    stage.hear([encode(Registration(b"math"))])
    stage.submit()
    requests = [m for m in map(decode, stage.take()) if isinstance(m, DcpRequest)]
    stage.restart()
    (request,) = requests
    metadata = request.tail[: request.tail.index(b"")]
    stage.hear([encode(DcpReply(request.client, (*metadata, b"", b"done")))])
    assert [r.state for r in stage.results] == [JobState.SUCCEEDED]
    assert isinstance(stage.broker, Broker)


def test_a_raw_mdp_worker_answers_after_a_restart() -> None:
    stage = Stage(mdp_sides, "mdp")
    stage.hear([encode_mdp(MdpReady(b"math"))])
    stage.submit()
    requests = [m for m in map(decode_mdp, stage.take()) if isinstance(m, WorkerRequest)]
    stage.restart()
    (request,) = requests
    stage.hear([encode_mdp(WorkerReply(request.client, (b"done",)))])
    assert [r.state for r in stage.results] == [JobState.SUCCEEDED]
    assert stage.to_worker, "it is told to register again"


#: Addresses that the transport made up, before and after a reconnection.
UNNAMED, UNNAMED_AGAIN = b"\0\0\0\0\1", b"\0\0\0\0\7"


def test_a_raw_dcp_worker_without_an_identity_answers_from_another_address() -> None:
    stage = Stage(dcp_sides, "dcp")
    stage.address = UNNAMED
    stage.hear([encode(Registration(b"math"))])
    stage.submit()
    (request,) = [m for m in map(decode, stage.take()) if isinstance(m, DcpRequest)]
    stage.restart()
    stage.address = UNNAMED_AGAIN
    metadata = request.tail[: request.tail.index(b"")]
    stage.hear([encode(DcpReply(request.client, (b"other", b"", b"done")))])
    assert not stage.results, "it answers no request that is known"
    stage.hear([encode(DcpReply(request.client, (*metadata, b"", b"done")))])
    assert [r.state for r in stage.results] == [JobState.SUCCEEDED]


def test_a_raw_mdp_worker_without_an_identity_answers_from_another_address() -> None:
    stage = Stage(mdp_sides, "mdp")
    stage.address = UNNAMED
    stage.hear([encode_mdp(MdpReady(b"math"))])
    stage.submit()
    (request,) = [m for m in map(decode_mdp, stage.take()) if isinstance(m, WorkerRequest)]
    stage.restart()
    stage.address = UNNAMED_AGAIN
    stage.hear([encode_mdp(WorkerReply(b"1/other", (b"done",)))])
    assert not stage.results, "it answers no request that is known"
    stage.hear([encode_mdp(WorkerReply(request.client, (b"done",)))])
    assert [r.state for r in stage.results] == [JobState.SUCCEEDED]
    assert stage.to_worker, "it is told to register again"


def test_a_raw_mdp_worker_that_is_ready_after_a_restart_holds_nothing() -> None:
    stage = Stage(mdp_sides, "mdp")
    stage.hear([encode_mdp(MdpReady(b"math"))])
    stage.submit()
    stage.restart()
    stage.hear([encode_mdp(MdpReady(b"math"))])
    assert stage.kinds.count(Kind.DISPATCHED) == 2
