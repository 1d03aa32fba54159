"""Instances of ZSS services register with SMI, stay with heartbeats, and leave."""

from typing import Any

import pytest

from dragoman.core.events import BeatReceived, PeerLeft, WorkerJoined
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.instances import ServiceInstances
from dragoman.dialects.zss.registrations import ServiceRegistrations, smi_denied, smi_failed
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.wire import REP, REQ, ZssMessage
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId

PEER = PeerId("zss-back/w")
SDK: dict[str, Any] = {
    "partial": True,
    "polls": True,
    "credit": 7,
    "labels": {"zone": "a", "n": 1},
    "holds": 0,
}


@pytest.fixture
def registrations() -> ServiceRegistrations:
    return ServiceRegistrations(ServiceInstances({}), ZssSettings())


def say(
    registrations: ServiceRegistrations, verb: str, sid: str = "MATH", **extra: Any
) -> list[object] | None:
    found = registrations.receive(PEER, verb, oldpack.encode(sid), extra)
    return None if found is None else list(found)


def joined(found: list[object] | None) -> WorkerJoined:
    assert found is not None
    (event,) = found
    assert isinstance(event, WorkerJoined)
    return event


def test_an_instance_registers_once_and_its_heartbeats_keep_it(
    registrations: ServiceRegistrations,
) -> None:
    event = joined(say(registrations, "up"))
    settings = ZssSettings()
    assert (event.worker, event.services) == (PEER, ("math",))
    assert (event.credit, event.can_cancel, event.holds) == (settings.credit, False, None)
    assert say(registrations, "UP") is None
    assert say(registrations, "HEARTBEAT") == [BeatReceived(PEER)]


def test_a_heartbeat_registers_an_instance_that_the_broker_does_not_know(
    registrations: ServiceRegistrations,
) -> None:
    assert joined(say(registrations, "heartbeat")).services == ("math",)


def test_an_sdk_worker_declares_what_it_can_and_may_register_again(
    registrations: ServiceRegistrations,
) -> None:
    event = joined(say(registrations, "UP", **SDK))
    assert (event.credit, event.can_cancel, event.labels) == (7, True, {"zone": "a"})
    assert event.holds == frozenset()
    assert PEER in registrations.reads_parts & registrations.answers_polls
    again = joined(say(registrations, "UP", **{**SDK, "holds": ["j1", 2], "credit": 10**9}))
    assert (again.holds, again.credit) == (frozenset({JobId("j1")}), 10_000)


@pytest.mark.parametrize(("credit", "found"), [(0, 1), (-5, 1), (True, 1), ("9", 1), (None, 1)])
def test_a_credit_that_is_no_number_from_one_up_is_not_taken(
    credit: object, found: int, registrations: ServiceRegistrations
) -> None:
    assert joined(say(registrations, "UP", credit=credit)).credit == found


def test_an_instance_leaves_with_its_last_service(registrations: ServiceRegistrations) -> None:
    say(registrations, "UP", **SDK)
    say(registrations, "UP", "TEXT", **SDK)
    assert joined(say(registrations, "DOWN", **SDK)).services == ("text",)
    assert say(registrations, "DOWN") is None, "it was not up"
    assert say(registrations, "DOWN", "TEXT") == [PeerLeft(PEER, "went down", ZssSettings().grace)]
    assert not registrations.reads_parts | registrations.answers_polls


def test_an_instance_that_is_forgotten_registers_anew(registrations: ServiceRegistrations) -> None:
    say(registrations, "UP", **SDK)
    registrations.forget(PEER)
    assert not registrations.reads_parts | registrations.answers_polls
    assert joined(say(registrations, "UP")).can_cancel is False


def test_other_verbs_fail_and_other_payloads_are_malformed(
    registrations: ServiceRegistrations,
) -> None:
    assert say(registrations, "SIDEWAYS") is None
    for payload in (b"\xc1", oldpack.encode(7), oldpack.encode(""), oldpack.encode("x" * 257)):
        with pytest.raises(MalformedMessage, match="the payload"):
            registrations.receive(PEER, "UP", payload, {})


def test_an_answer_to_a_request_that_failed_says_why() -> None:
    request = ZssMessage(REQ, b"r", b"", b"", b"", b"", identity=b"me")
    failed = smi_failed(request, "no such request")
    assert (failed.kind, failed.identity, failed.status, failed.rid) == (REP, None, b"500", b"r")
    assert b"no such request" in failed.payload
    denied = smi_denied(request, Fault(FaultCode.DENIED, "not this name"))
    assert denied.status == b"500"
    assert b"not this name" in denied.payload
