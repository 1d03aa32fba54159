"""Services at the back-end: SMI, who is there, and who is not any more."""

from dataclasses import replace

import pytest
from tests.dialects.zss_words import (
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
    house = fabric()
    request = smi("UP", identity=identity)
    serve(house, S, request)
    assert heard(house, BACK, S) == [replace(request, kind=REP, status=b"200", identity=None)]
    # It is the connection that is registered, whatever the message says.
    call(house, C, ask())
    assert len(heard(house, BACK, S)) == 1


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
    house = fabric()
    serve(house, S, *(smi(verb) for verb in verbs))
    assert [m.status for m in heard(house, BACK, S)] == codes


def test_a_refusal_of_smi_has_the_words_of_upstreams_broker() -> None:
    house = fabric()
    serve(house, S, smi("DOWN"))
    (refused,) = heard(house, BACK, S)
    said = oldpack.decode(refused.payload)
    assert said["userMessage"] == "There was an error while processing this request."
    assert (said["code"], said["errorCode"]) == (500, 500)


def test_smi_must_be_in_capitals_and_other_sids_are_refused() -> None:
    house = fabric()
    serve(
        house, S, replace(smi("UP"), address=write_address("smi", "UP")), replace(ask(), identity=S)
    )
    assert [m.status for m in heard(house, BACK, S)] == [b"500", b"500"]


@pytest.mark.parametrize("payload", [NIL, b"\x80", b"\xc1", b"\x05", b"\xa0"])
def test_smi_about_no_sid_is_malformed_and_gets_no_reply(payload: bytes) -> None:
    house = fabric()
    serve(house, S, replace(smi("UP"), payload=payload))
    assert heard(house, BACK, S) == []
    assert len(house.malformed) == 1


def test_one_instance_may_offer_several_sids() -> None:
    house = fabric()
    up(house, S, "one")
    up(house, S, "two")
    call(house, C, ask(address=write_address("ONE", "x")))
    call(house, C, ask(b"r2", address=write_address("TWO", "x")))
    assert len(heard(house, BACK, S)) == 2
    serve(house, S, smi("DOWN", "one"))
    call(house, C, ask(b"r3", address=write_address("ONE", "x")))
    call(house, C, ask(b"r4", address=write_address("TWO", "x")))
    assert [m.status for m in heard(house, FRONT, C)] == [b"404"]
    assert len(heard(house, BACK, S)) == 2


def test_an_instance_that_falls_silent_is_lost_and_its_next_heartbeat_brings_it_back() -> None:
    house = fabric(missed_allowed=3)
    up(house)
    house.wait(3.1)
    call(house, C, ask(b"r1"))
    assert [m.status for m in heard(house, FRONT, C)] == [b"404"]
    serve(house, S, smi("HEARTBEAT"))
    call(house, C, ask(b"r2"))
    assert [m.kind for m in heard(house, BACK, S)] == [REP, REQ]


def test_any_frame_of_an_instance_counts_as_life() -> None:
    house = fabric(missed_allowed=3)
    up(house)
    call(house, C, ask())
    (request,) = heard(house, BACK, S)
    house.wait(2.9)
    serve(house, S, reply(request))
    house.wait(2.9)
    call(house, C, ask(b"r2"))
    assert len(heard(house, BACK, S)) == 1
