"""What the text of ZSS only announces: versions, no duplicates, Titanic."""

from dataclasses import replace

from tests.dialects.zss_messages import (
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


def test_the_wildcard_takes_a_pre_release_only_if_there_is_nothing_else() -> None:
    broker = fabric()
    up(broker, S, "PONG@2.0.0-rc1")
    call(broker, C, ask(b"r1"))
    (request,) = heard(broker, BACK, S)
    serve(broker, S, reply(request))
    up(broker, S2, "PONG@1.10.0")
    call(broker, C, ask(b"r2"))
    assert [m.rid for m in heard(broker, BACK, S2)] == [b"r2"]
    call(broker, C, ask(b"r3", address=write_address("PONG", "PING", "2.0.0-rc1")))
    assert [m.rid for m in heard(broker, BACK, S)] == [b"r3"]


def test_the_wildcard_goes_to_the_newest_version_and_others_are_exact() -> None:
    broker = fabric(credit=4)
    up(broker, S, "PONG@1.9.0")
    up(broker, S2, "pong@1.10.0")
    call(broker, C, ask(b"r1"))
    (request,) = heard(broker, BACK, S2)
    # The instance compares the sid with its own name, so that is what it gets.
    assert read_address(request.address).sid == "PONG@1.10.0"
    call(broker, C, ask(b"r2", address=write_address("PONG", "PING", "1.9.0")))
    assert [m.rid for m in heard(broker, BACK, S)] == [b"r2"]
    call(broker, C, ask(b"r3", address=write_address("PONG", "PING", "2.0.0")))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"404"]
    serve(broker, S2, smi("DOWN", "pong@1.10.0"))
    call(broker, C, ask(b"r4"))
    assert [m.rid for m in heard(broker, BACK, S)] == [b"r4"]


# --- duplicates ------------------------------------------------------------------------------


def test_the_same_request_again_runs_once_and_gets_the_same_answer() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask())
    call(broker, C2, ask())
    (request,) = heard(broker, BACK, S)
    serve(broker, S, reply(request))
    assert heard(broker, FRONT, C) == []
    assert [m.payload for m in heard(broker, FRONT, C2)] == [b"\xa2ok"]
    call(broker, b"client#3", ask())
    assert [m.payload for m in heard(broker, FRONT, b"client#3")] == [b"\xa2ok"]
    assert heard(broker, BACK, S) == []


def test_the_same_request_id_with_another_payload_is_a_conflict() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask())
    call(broker, C2, ask(payload=b"\xa3you"))
    (request,) = heard(broker, BACK, S)
    assert [m.status for m in heard(broker, FRONT, C2)] == [b"409"]
    serve(broker, S, reply(request))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"200"]


def test_a_request_id_that_is_no_uuid_is_no_ones_name() -> None:
    broker = fabric(credit=4)
    up(broker)
    call(broker, C, ask(b"7"))
    call(broker, C2, ask(b"7", payload=b"\xa3you"))
    call(broker, C, ask(b""))
    assert [m.rid for m in heard(broker, BACK, S)] == [b"7", b"7", b""]


# --- titanic ---------------------------------------------------------------------------------


def fetch(rid: bytes = RID, verb: str = "RESULT") -> ZssMessage:
    address = write_address("TITANIC", verb)
    return ask(b"f-1", oldpack.encode(rid.decode()), address=address)


def test_titanic_keeps_a_request_until_somebody_serves_it_and_its_reply_until_it_is_fetched() -> (
    None
):
    broker = fabric()
    call(broker, C, ask(address=KEPT))
    (accepted,) = heard(broker, FRONT, C)
    assert (accepted.status, accepted.rid) == (b"202", RID)
    assert oldpack.decode(accepted.payload) == {"job": RID.decode(), "state": "queued"}
    assert next(r for r in broker.records if r.kind == "submitted").strict
    broker.gone.add((FRONT, C))
    call(broker, C2, fetch())
    (pending,) = heard(broker, FRONT, C2)
    assert (pending.status, oldpack.decode(pending.payload)["state"]) == (b"202", "queued")
    up_later = smi("UP")
    serve(broker, S, up_later)
    (_, request) = heard(broker, BACK, S)
    assert read_address(request.address).sid == "PONG"
    serve(broker, S, reply(request, b"201", b"\xa4done"))
    call(broker, C2, fetch())
    (result,) = heard(broker, FRONT, C2)
    assert (result.rid, result.status, result.payload) == (b"f-1", b"201", b"\xa4done")


def test_titanic_says_it_once_and_the_result_is_not_sent_unasked() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask(address=KEPT))
    (request,) = heard(broker, BACK, S)
    serve(broker, S, reply(request))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"202"]


def test_titanic_does_not_know_every_request_id_and_has_two_verbs() -> None:
    broker = fabric()
    call(broker, C, fetch(b"never-heard"), fetch(verb="SINK"), fetch(verb="cancel"))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"404", b"404", b"404"]
    call(broker, C, replace(fetch(), payload=b"\xc1"), replace(fetch(), payload=NIL))
    assert len(broker.malformed) == 2


def test_titanic_cancels_what_has_not_begun() -> None:
    broker = fabric()
    call(broker, C, ask(address=KEPT))
    heard(broker, FRONT, C)
    call(broker, C2, fetch(verb="CANCEL"), fetch())
    cancelled, result = heard(broker, FRONT, C2)
    assert oldpack.decode(cancelled.payload)["state"] == "cancelled"
    assert result.status == b"410"


def test_an_address_that_cannot_be_written_anew_harms_nobody() -> None:
    broker = fabric()
    up(broker, S, "Pong")
    number = b"\xa1n\xcf" + b"\xff" * 8
    call(broker, C, ask(address=b"\x82\xa3sid\xacTITANIC/PONG" + number))
    assert len(broker.malformed) == 1
    call(broker, C, ask(address=b"\x82\xa3sid\xa4pong" + number))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"422"]


def test_a_refused_request_to_titanic_is_not_confirmed() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask())
    call(broker, C2, ask(address=KEPT, payload=b"\xa3you"))
    assert [m.status for m in heard(broker, FRONT, C2)] == [b"409"]
