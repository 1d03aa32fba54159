"""Simulated clients repeat unanswered requests and remember answers."""

from typing import Any

from dragoman.core.effects import JobStatus, RequestKind, SendReply, SendStatus
from dragoman.core.events import (
    InputReceived,
    JobSubmitted,
    PeerLeft,
    ReplyKind,
    ResultForgotten,
    ResultRequested,
)
from dragoman.model.body import EMPTY
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.terms import Terms
from dragoman.testing.clients import SimClient
from dragoman.testing.oracle import Oracle
from dragoman.testing.world import World

PEER, A = PeerId("local/c1"), ServiceName("a")


class Said:
    def __init__(self) -> None:
        self.world, self.events = World(1), list[Any]()
        self.oracle = Oracle(self.world)
        self.client = SimClient(
            self.world, self.oracle, "c1", (WorkerName("w1"),), self.events.append
        )

    def run(self, seconds: float) -> list[Any]:
        self.events.clear()
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        return list(self.events)


def test_what_is_not_answered_is_asked_again() -> None:
    said = Said()
    said.client.submit_new()
    [first] = said.events
    assert said.run(5.0) == [first]


def test_what_is_acknowledged_is_asked_after() -> None:
    said = Said()
    said.client.submit_new()
    job = said.events[0].job
    said.client.receive(SendReply(PEER, job, ReplyKind.QUEUED, A))
    assert job in said.oracle.acknowledged
    assert isinstance(said.run(5.0)[0], ResultRequested)
    status = JobStatus(job, JobState.SUCCEEDED, A, PEER)
    said.client.receive(SendStatus(PEER, job, RequestKind.RESULT, status))
    assert said.client.open == {}
    assert said.run(20.0) == []


def test_some_results_are_asked_for_again_and_some_are_forgotten() -> None:
    said = Said()
    for n in range(64):
        submission = JobSubmitted(JobId(f"j{n}"), PEER, A, EMPTY, terms=Terms(result_ttl=1.0))
        said.client.open[submission.job] = submission
        reply = SendReply(PEER, submission.job, ReplyKind.FINAL, A, state=JobState.SUCCEEDED)
        said.client.receive(reply)
        said.client.receive(reply)
    later = said.run(20.0)
    assert sum(isinstance(e, ResultRequested) for e in later) == 3 * 64
    assert sum(isinstance(e, JobSubmitted) for e in later) == 64
    assert 1 < sum(isinstance(e, ResultForgotten) for e in later) < 20


def test_a_relaxed_answer_is_no_promise() -> None:
    said = Said()
    said.client.receive(SendReply(PEER, JobId("j"), ReplyKind.QUEUED, A, is_strict=False))
    assert said.oracle.acknowledged == set()


def test_questions_of_workers_are_answered_most_of_the_time() -> None:
    said = Said()
    for _ in range(20):
        said.client.receive(SendReply(PEER, JobId("j"), ReplyKind.INPUT_ASKED, A))
    assert 5 < sum(isinstance(e, InputReceived) for e in said.events) < 20


def test_a_client_that_left_is_deaf_until_it_comes_back() -> None:
    said = Said()
    said.client.submit_new()
    job = said.events[0].job
    said.client.leave()
    assert isinstance(said.events[-1], PeerLeft)
    said.client.receive(SendReply(PEER, job, ReplyKind.FINAL, A))
    assert job in said.client.open
    said.client.reconnect()
    assert isinstance(said.events[-1], JobSubmitted)


def test_meddling_finds_something_to_do_with_and_without_jobs() -> None:
    said = Said()
    said.client.flood()
    for _ in range(100):
        said.client.interfere([said.client])
    assert len({type(e) for e in said.events}) >= 4
