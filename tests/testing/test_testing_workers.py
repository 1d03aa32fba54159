"""Simulated workers follow their drawn outcome."""

from dataclasses import replace
from typing import Any

import pytest

from dragoman.core.effects import Dismiss, SendCancel, SendInput, SendPoll, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    JobForwarded,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.testing.workers import SimWorker
from dragoman.testing.world import World

PEER, CLIENT, JOB = PeerId("local/w1"), PeerId("local/c1"), JobId("j1")
WORK = SendWork(PEER, JOB, 1, ServiceName("a"), CLIENT, Body("local", (b"q",)))


class Said:
    def __init__(self, **offer: Any) -> None:
        self.world, self.events = World(1), list[Any]()
        joined = WorkerJoined(PEER, WorkerName("w1"), (ServiceName("a"),), **offer)
        self.worker = SimWorker(self.world, joined, self.events.append)
        self.worker.is_good = self.worker.reports_attempt = self.worker.reports_holds = True
        self.worker.start()

    def run(self, seconds: float) -> list[Any]:
        self.events.clear()
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        self.world.now = until
        return list(self.events)


def finals(events: list[Any]) -> list[ReplyReceived]:
    return [e for e in events if isinstance(e, ReplyReceived) and e.kind is ReplyKind.FINAL]


def test_it_joins_beats_and_answers_once() -> None:
    said = Said(beat_every=1.0, credit=1)
    assert isinstance(said.events[0], WorkerJoined)
    said.worker.receive(WORK)
    said.worker.receive(WORK)
    events = said.run(1.5)
    assert any(isinstance(e, BeatReceived) for e in events)
    assert any(isinstance(e, CreditGranted) for e in events)
    [final] = finals(events)
    assert final.body.parts == (b"q", b"1", b"w1")


def test_it_says_what_it_holds_when_it_is_dismissed() -> None:
    said = Said()
    said.worker.is_good = False
    said.worker.running[JOB, 1] = WORK
    said.worker.receive(Dismiss(PEER, "not known"))
    assert said.events[-1].holds == {JOB}


def test_a_poll_is_answered_with_the_result_or_with_the_job_handed_back() -> None:
    said = Said()
    said.worker.receive(SendPoll(PEER, JOB, 1, CLIENT))
    assert said.events[-1].fault.code == "handed_back"
    said.worker.receive(WORK)
    said.run(1.0)
    said.events.clear()
    said.worker.receive(SendPoll(PEER, JOB, 1, CLIENT))
    assert said.events[-1].body.parts[0] == b"q"


def test_a_cancel_is_confirmed_by_those_that_can() -> None:
    said = Said(can_cancel=True)
    said.worker.receive(WORK)
    for _ in range(20):
        said.worker.receive(SendCancel(PEER, JOB, 1, CLIENT))
    assert [f.fault.code for f in finals(said.events) if f.fault] == ["cancelled"]


@pytest.mark.parametrize("outcome", ["fail", "hand_back", "forward", "ask", "hang", "die"])
def test_every_fate_is_what_it_says(outcome: str) -> None:
    said = Said()
    said.worker.receive(WORK)
    said.events.clear()
    said.worker._finish(said.worker.life, (JOB, 1), outcome)
    if outcome == "forward":
        assert isinstance(said.events[0], JobForwarded)
    elif outcome == "ask":
        assert said.events[0].kind is ReplyKind.INPUT_ASKED
        said.worker.receive(SendInput(PEER, JOB, CLIENT, Body("local")))
        assert finals(said.events)
    elif outcome in ("hang", "die"):
        assert said.events == []
        assert said.worker.is_up is (outcome == "hang")
    else:
        assert finals(said.events)[0].fault is not None


def test_it_leaves_and_comes_back_with_everything_in_hand() -> None:
    said = Said()
    said.worker.receive(replace(WORK, attempt=2))
    said.worker.leave(5.0)
    assert [e for e in said.events if type(e) is PeerLeft] == [PeerLeft(PEER, "left", 5.0)]
    said.worker.receive(WORK)
    said.worker.reconnect()
    assert said.events[-1].holds == {JOB}
    assert finals(said.run(1.0))
    assert said.worker.running == {}


def test_it_joins_again_when_the_broker_is_silent() -> None:
    said = Said(beat_every=1.0)
    assert any(isinstance(e, WorkerJoined) for e in said.run(6.0))
