"""Services at the back-end: SMI, who is there, and who is not any more."""

from dataclasses import replace

import pytest
from tests.dialects.zss_messages import (
    BACK,
    FRONT,
    C,
    S,
    ask,
    call,
    fabric,
    heard,
    reply,
    serve,
    smi,
    up,
)

from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.wire import (
    NIL,
    REP,
    REQ,
    write_address,
)


@pytest.mark.parametrize("identity", [S, b"", b"SOMEBODY#else", None])
def test_up_is_confirmed_with_its_own_payload_in_seven_frames(identity: bytes | None) -> None:
    broker = fabric()
    request = smi("UP", identity=identity)
    serve(broker, S, request)
    assert heard(broker, BACK, S) == [replace(request, kind=REP, status=b"200", identity=None)]
    # It is the connection that is registered, whatever the message says.
    call(broker, C, ask())
    assert len(heard(broker, BACK, S)) == 1


@pytest.mark.parametrize(
    ("verbs", "codes"),
    [
        (["UP", "UP"], [b"200", b"500"]),
        (["DOWN"], [b"500"]),
        (["UP", "DOWN", "DOWN"], [b"200", b"200", b"500"]),
        (["HEARTBEAT", "HEARTBEAT", "UP", "DOWN"], [b"200", b"200", b"500", b"200"]),
        (["up", "Heartbeat", "dOwN"], [b"200", b"200", b"200"]),
        (["LIST"], [b"500"]),
    ],
)
def test_smi_answers_each_verb_with_its_code(verbs: list[str], codes: list[bytes]) -> None:
    broker = fabric()
    serve(broker, S, *(smi(verb) for verb in verbs))
    assert [m.status for m in heard(broker, BACK, S)] == codes


def test_a_refusal_of_smi_has_the_words_of_upstreams_broker() -> None:
    broker = fabric()
    serve(broker, S, smi("DOWN"))
    (refused,) = heard(broker, BACK, S)
    said = oldpack.decode(refused.payload)
    assert said["userMessage"] == "There was an error while processing this request."
    assert (said["code"], said["errorCode"]) == (500, 500)


def test_a_client_on_the_port_of_services_is_told_the_other_port() -> None:
    broker = fabric()
    serve(broker, S, replace(ask(), identity=S))
    (refused,) = heard(broker, BACK, S)
    said = oldpack.decode(refused.payload)
    assert said["detail"].endswith("clients use the other port, usually 7777")


def test_smi_is_not_case_sensitive_and_other_sids_are_refused() -> None:
    broker = fabric()
    serve(
        broker,
        S,
        replace(smi("UP"), address=write_address("smi", "up")),
        replace(ask(), identity=S),
        replace(smi("UP"), address=write_address("Smi", "heartBeat")),
    )
    assert [m.status for m in heard(broker, BACK, S)] == [b"200", b"500", b"200"]


@pytest.mark.parametrize("payload", [NIL, b"\x80", b"\xc1", b"\x05", b"\xa0"])
def test_smi_about_no_sid_is_malformed_and_gets_no_reply(payload: bytes) -> None:
    broker = fabric()
    serve(broker, S, replace(smi("UP"), payload=payload))
    assert heard(broker, BACK, S) == []
    assert len(broker.malformed) == 1


def test_one_instance_may_offer_several_sids() -> None:
    broker = fabric(credit=4)
    up(broker, S, "one")
    up(broker, S, "two")
    call(broker, C, ask(address=write_address("ONE", "x")))
    call(broker, C, ask(b"r2", address=write_address("TWO", "x")))
    assert len(heard(broker, BACK, S)) == 2
    serve(broker, S, smi("DOWN", "one"))
    call(broker, C, ask(b"r3", address=write_address("ONE", "x")))
    call(broker, C, ask(b"r4", address=write_address("TWO", "x")))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"404"]
    assert len(heard(broker, BACK, S)) == 2


def test_an_instance_that_falls_silent_is_lost_and_its_next_heartbeat_brings_it_back() -> None:
    broker = fabric(missed_allowed=3)
    up(broker)
    broker.wait(3.1)
    call(broker, C, ask(b"r1"))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"404"]
    serve(broker, S, smi("HEARTBEAT"))
    call(broker, C, ask(b"r2"))
    assert [m.kind for m in heard(broker, BACK, S)] == [REP, REQ]


def test_any_frame_of_an_instance_counts_as_life() -> None:
    broker = fabric(missed_allowed=3)
    up(broker)
    call(broker, C, ask())
    (request,) = heard(broker, BACK, S)
    broker.wait(2.9)
    serve(broker, S, reply(request))
    broker.wait(2.9)
    call(broker, C, ask(b"r2"))
    assert len(heard(broker, BACK, S)) == 1
