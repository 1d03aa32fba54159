"""What the text of ZSS only announces: versions, no duplicates, Titanic."""

from dataclasses import replace

from tests.dialects.zss_words import (
    BACK,
    C2,
    FRONT,
    KEPT,
    RID,
    S2,
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
    ZssMessage,
    read_address,
    write_address,
)

# --- versions --------------------------------------------------------------------------------


def test_the_wildcard_goes_to_the_newest_version_and_others_are_exact() -> None:
    house = fabric()
    up(house, S, "PONG@1.9.0")
    up(house, S2, "pong@1.10.0")
    call(house, C, ask(b"r1"))
    (request,) = heard(house, BACK, S2)
    # The instance compares the sid with its own name, so that is what it gets.
    assert read_address(request.address).sid == "PONG@1.10.0"
    call(house, C, ask(b"r2", address=write_address("PONG", "PING", "1.9.0")))
    assert [m.rid for m in heard(house, BACK, S)] == [b"r2"]
    call(house, C, ask(b"r3", address=write_address("PONG", "PING", "2.0.0")))
    assert [m.status for m in heard(house, FRONT, C)] == [b"404"]
    serve(house, S2, smi("DOWN", "pong@1.10.0"))
    call(house, C, ask(b"r4"))
    assert [m.rid for m in heard(house, BACK, S)] == [b"r4"]


# --- duplicates ------------------------------------------------------------------------------


def test_the_same_request_again_runs_once_and_gets_the_same_answer() -> None:
    house = fabric()
    up(house)
    call(house, C, ask())
    call(house, C2, ask())
    (request,) = heard(house, BACK, S)
    serve(house, S, reply(request))
    assert heard(house, FRONT, C) == []
    assert [m.payload for m in heard(house, FRONT, C2)] == [b"\xa2ok"]
    call(house, b"client#3", ask())
    assert [m.payload for m in heard(house, FRONT, b"client#3")] == [b"\xa2ok"]
    assert heard(house, BACK, S) == []


def test_the_same_request_id_with_another_payload_is_a_conflict() -> None:
    house = fabric()
    up(house)
    call(house, C, ask())
    call(house, C2, ask(payload=b"\xa3you"))
    (request,) = heard(house, BACK, S)
    assert [m.status for m in heard(house, FRONT, C2)] == [b"409"]
    serve(house, S, reply(request))
    assert [m.status for m in heard(house, FRONT, C)] == [b"200"]


def test_a_request_id_that_is_no_uuid_is_no_ones_name() -> None:
    house = fabric()
    up(house)
    call(house, C, ask(b"7"))
    call(house, C2, ask(b"7", payload=b"\xa3you"))
    call(house, C, ask(b""))
    assert [m.rid for m in heard(house, BACK, S)] == [b"7", b"7", b""]


# --- titanic ---------------------------------------------------------------------------------


def fetch(rid: bytes = RID, verb: str = "RESULT") -> ZssMessage:
    address = write_address("TITANIC", verb)
    return ask(b"f-1", oldpack.encode(rid.decode()), address=address)


def test_titanic_keeps_a_request_until_somebody_serves_it_and_its_reply_until_it_is_fetched() -> (
    None
):
    house = fabric()
    call(house, C, ask(address=KEPT))
    (accepted,) = heard(house, FRONT, C)
    assert (accepted.status, accepted.rid) == (b"202", RID)
    assert oldpack.decode(accepted.payload) == {"job": RID.decode(), "state": "queued"}
    assert next(r for r in house.records if r.kind == "submitted").strict
    house.gone.add((FRONT, C))
    call(house, C2, fetch())
    (pending,) = heard(house, FRONT, C2)
    assert (pending.status, oldpack.decode(pending.payload)["state"]) == (b"202", "queued")
    up_later = smi("UP")
    serve(house, S, up_later)
    (_, request) = heard(house, BACK, S)
    assert read_address(request.address).sid == "PONG"
    serve(house, S, reply(request, b"201", b"\xa4done"))
    call(house, C2, fetch())
    (result,) = heard(house, FRONT, C2)
    assert (result.rid, result.status, result.payload) == (b"f-1", b"201", b"\xa4done")


def test_titanic_says_it_once_and_the_result_is_not_sent_unasked() -> None:
    house = fabric()
    up(house)
    call(house, C, ask(address=KEPT))
    (request,) = heard(house, BACK, S)
    serve(house, S, reply(request))
    assert [m.status for m in heard(house, FRONT, C)] == [b"202"]


def test_titanic_does_not_know_every_request_id_and_has_two_verbs() -> None:
    house = fabric()
    call(house, C, fetch(b"never-heard"), fetch(verb="SINK"), fetch(verb="cancel"))
    assert [m.status for m in heard(house, FRONT, C)] == [b"404", b"404", b"404"]
    call(house, C, replace(fetch(), payload=b"\xc1"), replace(fetch(), payload=NIL))
    assert len(house.malformed) == 2


def test_titanic_cancels_what_has_not_begun() -> None:
    house = fabric()
    call(house, C, ask(address=KEPT))
    heard(house, FRONT, C)
    call(house, C2, fetch(verb="CANCEL"), fetch())
    cancelled, result = heard(house, FRONT, C2)
    assert oldpack.decode(cancelled.payload)["state"] == "cancelled"
    assert result.status == b"410"


def test_an_address_that_cannot_be_written_anew_harms_nobody() -> None:
    house = fabric()
    up(house, S, "Pong")
    number = b"\xa1n\xcf" + b"\xff" * 8
    call(house, C, ask(address=b"\x82\xa3sid\xacTITANIC/PONG" + number))
    assert len(house.malformed) == 1
    call(house, C, ask(address=b"\x82\xa3sid\xa4pong" + number))
    assert [m.status for m in heard(house, FRONT, C)] == [b"422"]


def test_a_refused_request_to_titanic_is_not_confirmed() -> None:
    house = fabric()
    up(house)
    call(house, C, ask())
    call(house, C2, ask(address=KEPT, payload=b"\xa3you"))
    assert [m.status for m in heard(house, FRONT, C2)] == [b"409"]
