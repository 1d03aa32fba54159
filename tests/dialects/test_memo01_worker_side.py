"""The worker's end alone: slots that start anew, faults, and what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.dialects.base import Frames
from dragoman.dialects.memo01.wire import MemoJob, encode
from dragoman.dialects.memo01.worker_side import MemoWorkerSide
from dragoman.dialects.peer_sides import Assigned, SendNow, Unsupported
from dragoman.model.content import Answer, Call


@pytest.mark.parametrize("answer", [[b"0"], [b"0", b"nonsense"]])
def test_a_slot_without_an_answer_starts_anew(answer: Frames) -> None:
    side = MemoWorkerSide(("s",))
    (ready,) = side.join()
    assert side.receive(answer) == [SendNow(ready)]


@pytest.mark.parametrize("frames", [[], [b"7", b"x"], [b"\xff", b"x"]])
def test_an_answer_for_no_slot_is_ignored(frames: Frames) -> None:
    side = MemoWorkerSide(("s",))
    side.join()
    assert side.receive(frames) == []


def test_an_answer_nobody_asked_for_is_ignored() -> None:
    side = MemoWorkerSide(("s",))
    assert side.receive([b"0", bytes.fromhex("83666d656d6f30310441aa")]) == []


def test_a_request_that_means_nothing_is_answered_with_a_fault() -> None:
    side = MemoWorkerSide(("s",))
    side.join()
    job = encode(MemoJob(b"id", "s", 1000, bytes.fromhex("d9d9f705")))
    (word,) = side.receive([b"0", job])
    assert isinstance(word, SendNow)
    assert b"bad_request" in word.frames[1]


def test_a_value_that_cannot_be_written_is_a_fault() -> None:
    side = MemoWorkerSide(("s",))
    side.join()
    (word,) = side.receive([b"0", encode(MemoJob(b"id", "s", 1000))])
    assert isinstance(word, Assigned)
    ((_, result),) = side.finish(word.ticket, Answer(value=object()))
    assert b"unmappable" in result
    assert side.finish(word.ticket, Answer(value=1)) == []


@pytest.mark.parametrize(
    "say",
    [
        lambda s: s.progress("t", 1),
        lambda s: s.chunk("t", b""),
        lambda s: s.ask_input("t", "", ""),
        lambda s: s.forward("t", "s", Call()),
        lambda s: s.publish("t", 1),
    ],
)
def test_a_worker_is_told_what_memo_has_no_words_for(say: Callable[[MemoWorkerSide], Any]) -> None:
    side = MemoWorkerSide(("s",))
    assert side.take("t") == side.beat() == []
    with pytest.raises(Unsupported, match="memo has no"):
        say(side)


DISCONNECT = [b"0", bytes.fromhex("83666d656d6f30310541aa")]
HEARTBEAT = [b"0", bytes.fromhex("83666d656d6f30310441aa")]


def test_a_registered_slot_that_is_dropped_registers_again_at_once() -> None:
    side = MemoWorkerSide(("s",))
    (ready,) = side.join()
    side.receive(HEARTBEAT)
    assert side.is_joined
    assert side.receive(DISCONNECT) == [SendNow(ready)]
    assert side.refusal == ""


def test_a_refused_slot_waits_longer_each_time_and_says_what_may_be_wrong() -> None:
    side = MemoWorkerSide(("s",))
    (ready,) = side.join()
    pauses = []
    for _ in range(7):
        assert side.receive(DISCONNECT) == []
        pauses.append(1)
        while not (sent := side.beat()):
            pauses[-1] += 1
        assert sent == [ready]
    assert pauses == [1, 2, 4, 8, 16, 16, 16]
    assert "right to register" in side.refusal
    side.receive(HEARTBEAT)
    assert side.refusal == ""
    assert side.beat() == []
