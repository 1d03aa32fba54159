"""Every invariant can fail: each is violated on purpose."""

from collections.abc import Callable

import pytest
from tests.core.builders import Stage, joined, peer, submitted

from dragoman.model.job import JobState


def scene() -> Stage:
    stage = Stage()
    stage.tell(
        joined("w1", credit=1, beat_every=1.0),
        submitted("running", run_timeout=9.0, timeout=99.0),
        submitted("waiting", patience=5.0),
        submitted("unbound", "b", target="all"),
    )
    return stage


def part(stage: Stage, job: str) -> object:
    return stage.job(job).parts[0]


def _give_room(stage: Stage) -> None:
    stage.worker().credit = 1
    stage.broker.state.registry.refresh(stage.worker())


def _cancel_in_secret(stage: Stage) -> None:
    stage.job("waiting").cancel_asked_at = 1.0
    stage.job("waiting").cancel_timer = stage.job("running").deadline_timer


BREAKS: dict[str, Callable[[Stage], None]] = {
    "runs without a worker": lambda s: s.worker().held.clear(),
    "has room": _give_room,
    "miscounted": lambda s: setattr(s.broker.state.queues.of("a"), "jobs", 5),  # type: ignore[arg-type]
    "bytes waiting": lambda s: setattr(s.broker.state.queues.of("a"), "bytes", 5),  # type: ignore[arg-type]
    "lost its deadline": lambda s: s.broker.state.deadlines.cancel(s.job("running").deadline_timer),
    "without a run timer": lambda s: s.broker.state.deadlines.cancel(
        s.job("running").parts[0].run_timer
    ),
    "waits without a patience timer": lambda s: s.broker.state.deadlines.cancel(
        s.job("unbound").unbound_timer
    ),
    "has lost its request": lambda s: setattr(part(s, "waiting"), "request_seq", 0),
    "bodies in memory": lambda s: setattr(part(s, "waiting"), "request", None),
    "neither queued nor due": lambda s: s.broker.state.queues.discard(s.job("waiting").parts[0]),
    "was refused and has no retry timer": lambda s: setattr(
        part(s, "waiting"), "refused_by", {"w1"}
    ),
    "unlike its parts": lambda s: setattr(s.job("running"), "state", JobState.QUEUED),
    "ended with open parts": lambda s: setattr(s.job("running"), "state", JobState.DEAD),
    "negative credit": lambda s: setattr(s.worker(), "credit", -1),
    "beats": lambda s: s.broker.state.deadlines.cancel(s.worker().lease_timer),
    "worker sessions differ": lambda s: s.broker.state.store.sessions.clear(),
    "connected and absent": lambda s: s.broker.state.absent.update({peer("w1"): s.worker()}),
    "open_jobs": lambda s: setattr(s.broker.state.store, "open_jobs", 0),
    "cached": lambda s: setattr(s.broker.state, "cached_bytes", 7),
    "wrong clients": lambda s: s.broker.state.queues.turns.numbers.update({peer("c9"): 1}),
    "drained": lambda s: s.broker.state.registry.drained.append(s.worker()),
    "is not queued": lambda s: s.broker.state.queues.of("b").unbound.clear(),  # type: ignore[arg-type]
    "although it was cancelled": _cancel_in_secret,
    "its cancel has no timer": lambda s: setattr(s.job("running"), "cancel_asked_at", 1.0),
}


@pytest.mark.parametrize("words", list(BREAKS))
def test_a_broken_state_is_named(words: str) -> None:
    stage = scene()
    stage.broker.validate()
    BREAKS[words](stage)
    with pytest.raises(AssertionError, match=words):
        stage.broker.validate()
