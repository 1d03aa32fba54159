"""Our client against NorFab's broker, and against whatever else a broker may say."""

import pytest

from dragoman.dialects.base import Frames
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.client_side import NfpClientSide
from dragoman.dialects.peer_sides import (
    Finished,
    SendNow,
    Submission,
)
from dragoman.model.content import Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId

J1 = JobId("j1")
FAILED = Fault(FaultCode.TASK_FAILED, "no")
ADD = Submission(J1, "math", Call("add", (1,), {"y": b"\x00"}, timeout=20.0))


def client(*jobs: str) -> NfpClientSide:
    side = NfpClientSide(lambda: "s1")
    for job in jobs:
        side.submit(Submission(JobId(job), "math", Call("add")))
    return side


def reply(command: str, status: bytes, body: bytes, uuid: bytes = b"j1") -> Frames:
    return wire.encode(wire.NfpReply(command, b"math", uuid, status, body))


def test_an_announced_result_is_fetched_from_norfabs_broker() -> None:
    side = client("j1")
    side.receive(reply(wire.RESPONSE, b"202", b'{"workers":["w1"]}'))
    ready = b'{"event_type":"result_ready","worker":"w1"}'
    (ask,) = side.receive(reply(wire.EVENT, b"200", ready))
    assert isinstance(ask, SendNow)
    assert wire.decode(ask.frames) == wire.NfpRequest(wire.GET, b"math", b'["w1"]', b"j1", b"")


def test_only_missing_workers_are_asked_for_their_result() -> None:
    side = client("j1")
    side.receive(reply(wire.RESPONSE, b"202", b'{"workers":["w1","w2"]}'))
    assert side.receive(reply(wire.RESPONSE, b"200", b'{"w1":{"result":1}}')) == []
    (ask,) = map(wire.decode, side.ask(J1))
    assert isinstance(ask, wire.NfpRequest)
    assert ask.target == b'["w2"]'


def test_a_bare_400_of_norfabs_broker_keeps_its_message() -> None:
    body = b'{"workers":null,"status":"FAILED","errors":["nobody"]}'
    (end,) = client("j1").receive(reply(wire.RESPONSE, b"400", body))
    assert end == Finished(J1, fault=Fault(FaultCode.NO_WORKER, "nobody"), state=JobState.FAILED)


def test_a_forgotten_job_gives_no_more_notices() -> None:
    side = client("j1")
    side.forget(J1)
    for command in (wire.RESPONSE, wire.EVENT, wire.STREAM):
        assert side.receive(reply(command, b"200", b"{}")) == []


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b"", wire.BROKER, b"0x05", b"demo", b"too short"],
        wire.encode(wire.NfpReady(b"math")),
        reply(wire.RESPONSE, b"777", b"{}"),
        reply(wire.RESPONSE, b"202", b'{"workers":7}'),
        reply(wire.RESPONSE, b"300", b"{}", uuid=b"\xff"),
        reply(wire.EVENT, b"200", b"{}", uuid=b"s1"),
        reply(wire.MMI, b"200", b"{}"),
    ],
    ids=range(8),
)
def test_a_client_survives_any_broker(frames: Frames) -> None:
    side = client("j1")
    side.subscribe(("*",), 0)
    assert side.receive(frames) == []
    assert len(side.receive(reply(wire.RESPONSE, b"200", b'{"w":{"result":1}}'))) == 1
