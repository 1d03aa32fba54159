"""Our worker with NorFab's broker, and with arbitrary messages."""

import pytest
from tests.dialects.nfp_fabric import body_of

from dragoman.dialects.base import Frames
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import (
    Dismissed,
    InputGiven,
    SendNow,
    Submission,
    Unsupported,
    WorkerNotice,
)
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId

J1 = JobId("j1")
FAILED = Fault(FaultCode.TASK_FAILED, "no")
ADD = Submission(J1, "math", Call("add", (1,), {"y": b"\x00"}, timeout=20.0))


def task(command: str, body: bytes = b"", uuid: bytes = b"j1", attempt: bytes = b"") -> Frames:
    return wire.encode(wire.NfpTask(command, b"c1", uuid, body, more=(attempt,) if attempt else ()))


def worker() -> NfpWorkerSide:
    side = NfpWorkerSide("w1", "math", credit=2, stamp=lambda: "now")
    side.join()
    return side


def replies(words: list[WorkerNotice]) -> list[wire.Message]:
    return [wire.decode(w.frames) for w in words if isinstance(w, SendNow)]


def test_under_norfabs_broker_a_result_is_pushed_and_announced() -> None:
    side = worker()
    side.receive(task(wire.POST, b'{"task":"add"}'))
    pushed, announced = map(wire.decode, side.finish("j1", Answer(5)))
    assert isinstance(pushed, wire.NfpReport)
    assert (pushed.command, pushed.status) == (wire.RESPONSE, b"200")
    assert body_of(announced)["event_type"] == "result_ready"
    assert body_of(announced)["timestamp"] == "now"


def statuses(side: NfpWorkerSide) -> list[bytes]:
    reports = replies(side.receive(task(wire.GET)))
    return [r.status for r in reports if isinstance(r, wire.NfpReport)]


def test_a_get_is_answered_with_the_status_of_the_job() -> None:
    side = worker()
    assert statuses(side) == [b"404"]
    side.receive(task(wire.POST, b'{"task":"add"}'))
    assert statuses(side) == [b"300"]
    side.ask_input("j1", "q", "sure?")
    assert statuses(side) == [b"102"]
    side.receive(task(wire.PUT, b'{"input_id":"q","value":1}'))
    side.finish("j1", Answer(5))
    assert statuses(side) == [b"200"]


def test_the_same_post_again_is_the_same_run_under_its_newest_attempt() -> None:
    side = worker()
    body = b'{"task":"add"}'
    assert len(side.receive(task(wire.POST, body, attempt=b"1"))) == 1
    assert side.receive(task(wire.POST, body, attempt=b"2")) == []
    side.take("j1")
    (again,) = replies(side.receive(task(wire.POST, body, attempt=b"3")))
    assert isinstance(again, wire.NfpReport)
    assert (again.status, again.more) == (b"201", (b"3",))
    side.finish("j1", Answer(5))
    (result,) = replies(side.receive(task(wire.POST, body, attempt=b"4")))
    assert isinstance(result, wire.NfpReport)
    assert (result.status, result.more) == (b"200", (b"4",))


def test_a_call_that_cannot_be_read_is_answered_as_failed() -> None:
    (failed, _) = replies(worker().receive(task(wire.POST, b'{"task":"x","args":1}')))
    assert body_of(failed)["w1"]["failed"] is True


def test_results_are_kept_within_a_bound() -> None:
    side = NfpWorkerSide("w1", "math", results_kept=2)
    for uuid in (b"a", b"b", b"c"):
        side.receive(task(wire.POST, b'{"task":"x"}', uuid))
        side.finish(uuid.decode(), Answer(1))
    opened = wire.decode(side.join()[0])
    assert body_of(opened)["holds"] == ["b", "c"]


def test_a_delete_of_a_finished_job_is_answered_with_its_result() -> None:
    side = worker()
    side.receive(task(wire.POST, b'{"task":"add"}'))
    side.finish("j1", Answer(5))
    (kept,) = replies(side.receive(task(wire.DELETE)))
    assert isinstance(kept, wire.NfpReport)
    assert kept.status == b"200"


def test_unsolicited_input_is_passed_unchanged() -> None:
    side = worker()
    assert side.receive(task(wire.PUT, b"{}")) == []
    side.receive(task(wire.POST, b'{"task":"add"}'))
    assert side.receive(task(wire.PUT, b'{"offset":8}')) == [InputGiven("j1", "", {"offset": 8})]
    assert side.receive(task(wire.PUT, b"\xff")) == [InputGiven("j1", "", b"\xff")]


def test_even_norfabs_swapped_disconnect_is_understood() -> None:
    assert worker().receive([b"", wire.BROKER, b"math", b"0x03"]) == [Dismissed()]


@pytest.mark.parametrize(
    "frames", [[], [b"x"], [b"", wire.BROKER, b"0x04"], list(task(wire.POST, uuid=b"\xff"))]
)
def test_a_worker_ignores_what_it_cannot_read(frames: Frames) -> None:
    assert worker().receive(frames) == []


def test_a_job_cannot_be_forwarded() -> None:
    with pytest.raises(Unsupported, match="nfp"):
        worker().forward("j1", "other", Call("x"))
