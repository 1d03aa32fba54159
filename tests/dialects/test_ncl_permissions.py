"""NATS permissions allow what our own node does, and no subject of another node."""

import pytest

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.permissions import may_publish, may_subscribe
from dragoman.dialects.ncl.worker_side import NclWorkerSide


def covers(allowed: tuple[str, ...], subject: str) -> bool:
    """Match a subject as NATS does."""
    return any(_match(pattern.split("."), subject.split(".")) for pattern in allowed)


def _match(pattern: list[str], subject: list[str]) -> bool:
    for at, token in enumerate(pattern):
        if token == ">":
            return len(subject) > at
        if at >= len(subject) or token not in ("*", subject[at]):
            return False
    return len(pattern) == len(subject)


def side(node: str) -> NclWorkerSide:
    return NclWorkerSide(node, ("math",), ids=lambda: "id", clock=lambda: 0.0)


def test_a_node_may_listen_where_our_node_listens() -> None:
    assert [s for s in side("n-1").subscriptions if not covers(may_subscribe("n-1"), s)] == []


def test_a_node_may_speak_where_our_node_speaks() -> None:
    said = [frames[0].decode() for frames in side("n-1").join()]
    assert said
    assert [s for s in said if not covers(may_publish("n-1"), s)] == []


@pytest.mark.parametrize("channel", [wire.CTRL, wire.OUT_MSGS, wire.REQUESTS, wire.HEARTBEAT])
def test_no_node_may_speak_as_another(channel: str) -> None:
    assert covers(may_publish("n-1"), wire.compute_subject("n-1", channel))
    assert not covers(may_publish("n-1"), wire.compute_subject("n-2", channel))


def test_no_node_may_listen_for_another_or_for_the_broker() -> None:
    theirs = [s for s in side("n-2").subscriptions if not s.startswith("$SRV")]
    assert theirs
    assert [s for s in theirs if covers(may_subscribe("n-1"), s)] == []
    for subject in ("_INBOX.abc.1", "_INBOX.>", ">", wire.compute_subject("n-1", wire.OUT_MSGS)):
        assert not covers(may_subscribe("n-1"), subject)
