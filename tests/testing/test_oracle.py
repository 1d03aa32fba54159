"""The oracle reports broken promises."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.builders import Stage, body, joined, left, peer, submitted

from dragoman.core.effects import Effect, SendReply, SendStatus
from dragoman.core.events import Event, ReplyKind, ResultRequested
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.job import JobState
from dragoman.model.names import JobId, ServiceName
from dragoman.testing.oracle import Oracle, PromiseBroken
from dragoman.testing.world import World


class Watched:
    """A core test stage with an oracle."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.oracle = Oracle(World(1))
        self.ledger = MemoryLedger()
        self.oracle.ledger = lambda: self.ledger

    def tell(self, *events: Event) -> list[Effect]:
        everything = []
        for event in events:
            effects = self.stage.broker.handle(event, self.stage.now)
            self.stage.keep(effects)
            self.oracle.handled(event, effects, self.stage.broker)
            everything += effects
        return everything

    def entries(self) -> list[Entry]:
        return [Entry(r, self.stage.bodies.get(r.seq)) for r in self.stage.records]


def reply(**said: object) -> SendReply:
    return SendReply(peer("c1"), JobId("j1"), ReplyKind.FINAL, ServiceName("a"), **said)  # type: ignore[arg-type]


def test_an_ordinary_life_breaks_nothing() -> None:
    watched = Watched()
    watched.tell(joined("w1"), submitted("j1"), left("w1"), joined("w2"))
    watched.oracle.compare(watched.stage.broker, watched.entries())


def test_a_strict_send_needs_its_records_on_the_disk() -> None:
    oracle = Oracle(World(1))
    oracle.leaving(reply(is_strict=False), needed=5, durable=0)
    oracle.leaving(reply(), needed=5, durable=5)
    with pytest.raises(PromiseBroken, match="is sent at 4 durable records but needs 5"):
        oracle.leaving(reply(), needed=5, durable=4)


def test_a_final_state_that_was_sent_never_changes() -> None:
    oracle = Oracle(World(1))
    oracle.leaving(reply(state=JobState.SUCCEEDED), 0, 0)
    oracle.leaving(reply(state=JobState.SUCCEEDED), 0, 0)
    with pytest.raises(PromiseBroken, match="was succeeded and is failed now"):
        oracle.leaving(reply(state=JobState.FAILED), 0, 0)


def test_an_acknowledged_job_is_on_the_disk_after_a_crash() -> None:
    watched = Watched()
    [queued, *_] = [e for e in watched.tell(submitted("j1")) if isinstance(e, SendReply)]
    watched.oracle.client_received(queued)
    watched.oracle.recovered(fold(watched.stage.records), 0.0, Limits())
    with pytest.raises(PromiseBroken, match="acknowledged and is not on the disk"):
        watched.oracle.recovered(fold([]), 0.0, Limits())


def test_an_acknowledged_job_is_never_unknown() -> None:
    watched = Watched()
    watched.oracle.acknowledged.add("j1")
    with pytest.raises(PromiseBroken, match="is unknown now"):
        watched.tell(ResultRequested(JobId("j1"), peer("c1")))


def test_nothing_is_sent_to_a_peer_that_left() -> None:
    watched = Watched()
    watched.tell(left("c1"))
    astray = SendStatus(peer("c1"), JobId("j1"), "result", None)  # type: ignore[arg-type]
    with pytest.raises(PromiseBroken, match="which left"):
        watched.oracle.handled(None, [astray], watched.stage.broker)


def test_an_answer_belongs_to_its_question_and_its_client() -> None:
    watched = Watched()
    watched.tell(joined("w1"), submitted("j1"))
    wrong = reply(state=JobState.SUCCEEDED, body=body("another question"))
    with pytest.raises(PromiseBroken, match="b'question' is answered by b'another question'"):
        watched.oracle.handled(None, [wrong], watched.stage.broker)
    other = SendReply(peer("c9"), JobId("j1"), ReplyKind.QUEUED, ServiceName("a"))
    with pytest.raises(PromiseBroken, match="goes to"):
        watched.oracle.handled(None, [other], watched.stage.broker)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda entries: entries.pop(), "records are missing"),
        (lambda entries: entries.pop(0), "records are missing|sessions differ|counts differ"),
    ],
)
def test_a_replay_must_be_the_live_state(harm: Callable[[list[Entry]], None], words: str) -> None:
    watched = Watched()
    watched.tell(joined("w1"), submitted("j1"))
    entries = watched.entries()
    harm(entries)
    with pytest.raises(PromiseBroken, match=words):
        watched.oracle.compare(watched.stage.broker, entries)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"timeout": 5.0}, "open after its deadline"),
        ({"run_timeout": 5.0}, "run_timeout"),
    ],
)
def test_nothing_outlives_its_time(terms: dict[str, Any], words: str) -> None:
    watched = Watched()
    watched.tell(joined("w1"), submitted("j1", **terms))
    state = watched.stage.broker.state
    state.deadlines._heap.clear()
    state.now += 6.0
    with pytest.raises(PromiseBroken, match=words):
        watched.oracle._check_deadlines(watched.stage.broker)


def test_a_world_at_rest_has_no_open_jobs() -> None:
    watched = Watched()
    watched.tell(submitted("j1"))
    with pytest.raises(PromiseBroken, match="j1 never ends"):
        watched.oracle.check_finished(watched.stage.broker)
    assert watched.oracle.questions == {"j1": body().parts[0]}
