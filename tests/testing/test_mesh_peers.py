"""Peers of the mesh worlds: workers that count, and clients that insist."""

from collections import Counter

import pytest

from dragoman.core.effects import SendCancel, SendInput, SendReply, SendWork
from dragoman.core.events import (
    Event,
    InputReceived,
    JobSubmitted,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.testing.mesh_peers import MeshClient, MeshWorker
from dragoman.testing.oracle import Oracle, PromiseBroken
from dragoman.testing.world import World

WORKER = PeerId("local/w1")
CLIENT = PeerId("local/c1")
JOB = JobId("j1")
MATH = ServiceName("math")


def work(outcome: str, attempt: int = 1) -> SendWork:
    return SendWork(WORKER, JOB, attempt, MATH, CLIENT, Body("local", (b"j1", outcome.encode())))


class Site:
    def __init__(self) -> None:
        self.world, self.said, self.runs = World(1), list[Event](), Counter[JobId]()
        offer = WorkerJoined(WORKER, WorkerName("w1"), (MATH,), beat_every=1.0)
        self.worker = MeshWorker(self.world, offer, self.said.append, self.runs)
        self.worker.start()

    def run(self, seconds: float) -> list[ReplyReceived]:
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        return [e for e in self.said if isinstance(e, ReplyReceived) and e.kind == "final"]


def test_a_worker_counts_what_it_begins() -> None:
    site = Site()
    site.worker.receive(work("fail once"))
    (failed,) = site.run(60.0)
    site.worker.receive(work("fail once", attempt=2))
    ended = site.run(60.0)[-1]
    assert failed.fault is not None
    assert ended.fault is None
    assert site.runs == {JOB: 2}


def test_a_worker_stops_when_it_is_told_to() -> None:
    site = Site()
    site.worker.receive(work("succeed"))
    site.worker.receive(SendCancel(WORKER, JOB, 1, CLIENT))
    (ended,) = site.run(0.0)
    assert ended.fault is not None
    assert ended.fault.code == "cancelled"


def test_a_worker_that_asked_waits_for_input() -> None:
    site = Site()
    site.worker.receive(work("ask"))
    assert site.run(60.0) == []
    site.worker.receive(SendInput(WORKER, JOB, CLIENT, Body("local", (b"yes",))))
    assert len(site.run(0.0)) == 1


def client() -> tuple[MeshClient, list[Event], World]:
    world, said = World(3), list[Event]()
    return MeshClient(world, Oracle(world), "c1", ("math",), said.append), said, world


def test_a_client_repeats_a_request_until_it_is_answered() -> None:
    one, said, world = client()
    one.submit_new()
    for _ in range(3):
        world.step()
    assert len([e for e in said if isinstance(e, JobSubmitted)]) == 4
    (job,) = one.open
    one.receive(SendReply(one.peer, job, ReplyKind.FINAL, MATH, state=JobState.FAILED))
    assert one.open == {}


def test_a_client_answers_a_question_and_notices_a_wrong_result() -> None:
    one, said, _ = client()
    one.submit_new()
    (job,) = one.open
    one.receive(SendReply(one.peer, job, ReplyKind.INPUT_ASKED, MATH))
    assert isinstance(said[-1], InputReceived)
    wrong = Body("far", (b"another job",))
    with pytest.raises(PromiseBroken):
        one.receive(
            SendReply(one.peer, job, ReplyKind.FINAL, MATH, body=wrong, state=JobState.SUCCEEDED)
        )
