"""The client's end alone: what it says, what it ignores, what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.dialects.base import Frames
from dragoman.dialects.memo01.client_side import MemoClientSide
from dragoman.dialects.memo01.wire import MemoHeartbeat, encode
from dragoman.dialects.peer_sides import Finished, Submission, Unsupported
from dragoman.model.content import Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL, Named


def test_a_client_says_how_long_it_will_wait_for_an_answer() -> None:
    call = Call("t", timeout=2.0)
    ((ticket, message, wait),) = MemoClientSide().submit(Submission(JobId("j"), "s", call))
    assert ticket == b"j"
    assert message.startswith(bytes.fromhex("85666d656d6f30310240617319") + b"\x07\xd0")
    assert int(wait) == 2000 + 2000


def test_a_client_that_says_no_time_waits_for_the_queue_as_well() -> None:
    ((_, _, wait),) = MemoClientSide(timeout=30.0).submit(Submission(JobId("j"), "s", Call("t")))
    assert int(wait) == 30_000 + 10_000 + 2000


@pytest.mark.parametrize("timeout", [0.0, -1.0, 0.0001])
def test_a_client_never_sends_a_timeout_without_time(timeout: float) -> None:
    ((_, message, _wait),) = MemoClientSide().submit(
        Submission(JobId("j"), "s", Call("t", timeout=timeout))
    )
    assert message.startswith(bytes.fromhex("85666d656d6f303102406173" + "01"))


@pytest.mark.parametrize(
    "frames",
    [[], [b"j", b"nonsense"], [b"k", b"x"], [b"\xff"], [b"j", encode(MemoHeartbeat(b"id"))]],
)
def test_a_client_ignores_what_it_cannot_read(frames: Frames) -> None:
    side = MemoClientSide()
    side.submit(Submission(JobId("j"), "s", Call("t")))
    assert side.receive(frames) == []


def test_an_answer_counts_once() -> None:
    side = MemoClientSide()
    side.submit(Submission(JobId("j"), "s", Call("t")))
    answer = [b"j", bytes.fromhex("83666d656d6f30310340")]
    assert len(side.receive(answer)) == 1
    assert side.receive(answer) == []


def test_an_answer_that_means_nothing_is_a_fault() -> None:
    side = MemoClientSide()
    side.submit(Submission(JobId("j"), "s", Call("t")))
    (notice,) = side.receive([b"j", bytes.fromhex("83666d656d6f30310340d9d9f7f7")])
    assert isinstance(notice, Finished)
    assert notice.fault is not None
    assert notice.fault.code is FaultCode.UNMAPPABLE


def test_a_fault_told_by_one_of_our_workers_through_another_broker_is_a_fault() -> None:
    side = MemoClientSide()
    side.submit(Submission(JobId("j"), "s", Call("t")))
    fault = bytes.fromhex("d9d9f7a2656661756c746b7461736b5f6661696c6564676d65737361676560")
    (notice,) = side.receive([b"j", bytes.fromhex("83666d656d6f30310340") + fault])
    assert isinstance(notice, Finished)
    assert notice.fault == Fault(FaultCode.TASK_FAILED)


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.submit(Submission(JobId("j"), "s", Call("t"), ALL)),
        lambda s: s.submit(Submission(JobId("j"), "s", Call("t"), Named((WorkerName("w"),)))),
        lambda s: s.submit(Submission(JobId("j"), "s", Call("t"), key="k")),
        lambda s: s.ask(JobId("j")),
        lambda s: s.cancel(JobId("j")),
        lambda s: s.give_input(JobId("j"), "", 1, ""),
        lambda s: s.subscribe(("x",), 0),
    ],
)
def test_what_memo_has_no_words_for_is_refused_with_advice(
    ask: Callable[[MemoClientSide], Any],
) -> None:
    side = MemoClientSide()
    assert side.hello() == []
    with pytest.raises(Unsupported, match="memo has no"):
        ask(side)
