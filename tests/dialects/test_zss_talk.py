"""ZSS peers around the true broker: SMI, requests and replies, and whatever else is said."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.zss_words import (
    BACK,
    C2,
    FRONT,
    KEPT,
    PING,
    RID,
    S2,
    VECTORS,
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
from dragoman.dialects.zss.client_side import ClientSide
from dragoman.dialects.zss.settings import TERMS
from dragoman.dialects.zss.wire import (
    NIL,
    PRT,
    REP,
    REQ,
    decode,
    encode,
    read_address,
    write_address,
)
from dragoman.dialects.zss.worker_side import WorkerSide

# --- SMI -------------------------------------------------------------------------------------


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


# --- requests and replies --------------------------------------------------------------------


def test_a_request_passes_byte_for_byte_with_its_client_before_it() -> None:
    house = fabric()
    up(house)
    call(house, C, ask(headers=b"\x81\xa1x\xc4", payload=b"\xc4", protocol=b"ZSS:9.9"))
    (request,) = heard(house, BACK, S)
    assert request == ask(
        headers=b"\x81\xa1x\xc4", payload=b"\xc4", protocol=b"ZSS:9.9", identity=C
    )
    serve(house, S, reply(request, payload=b"\xd8\x00\x01\xff"))
    (answer,) = heard(house, FRONT, C)
    assert answer == replace(reply(request, payload=b"\xd8\x00\x01\xff"), identity=None)


def test_any_type_on_the_front_end_is_a_request() -> None:
    house = fabric()
    up(house)
    call(house, C, replace(ask(), kind=REP))
    assert [m.kind for m in heard(house, BACK, S)] == [REQ]


def test_an_unknown_service_is_404_at_once_with_both_codes() -> None:
    house = fabric()
    request = ask(address=write_address("GHOST", "PING"))
    call(house, C, request)
    (answer,) = heard(house, FRONT, C)
    assert replace(answer, payload=b"") == replace(request, kind=REP, status=b"404", payload=b"")
    said = oldpack.decode(answer.payload)
    assert said["developerMessage"] == "The resource could not be found."
    assert (said["code"], said["errorCode"]) == (404, 404)


def test_smi_on_the_front_end_is_just_an_unknown_service() -> None:
    house = fabric()
    call(house, C, ask(address=write_address("SMI", "UP"), payload=b"\xa4PONG"))
    assert [m.status for m in heard(house, FRONT, C)] == [b"404"]
    assert house.kinds() == ["refused"]


def test_the_sid_reaches_the_instance_in_capitals_and_the_rest_as_it_came() -> None:
    house = fabric()
    up(house, S, "Pong")
    address = oldpack.encode({"sid": "pOnG", "verb": "pIng", "sversion": "*", "x": 1})
    call(house, C, ask(address=address))
    (request,) = heard(house, BACK, S)
    assert request.address == oldpack.encode(
        {"sid": "PONG", "verb": "pIng", "sversion": "*", "x": 1}
    )


def test_instances_take_turns_in_the_order_they_came() -> None:
    house = fabric()
    instances = [b"PONG#%d" % n for n in range(3)]
    for instance in instances:
        up(house, instance)
    turns = []
    for n in range(9):
        call(house, C, ask(b"r%d" % n))
        turns += [i for i in instances if heard(house, BACK, i)]
    assert turns == instances * 3


@pytest.mark.parametrize("balance", ["least_loaded", "least_recently_used"])
def test_the_way_to_share_work_is_chosen_per_service(balance: str) -> None:
    house = fabric(services={"pong": replace(TERMS, balance=balance)})
    for instance in (S, S2):
        up(house, instance)
    call(house, C, ask(b"r1"), ask(b"r2"))
    (first,), (second,) = heard(house, BACK, S), heard(house, BACK, S2)
    assert (first.rid, second.rid) == (b"r1", b"r2")
    serve(house, S2, reply(second))
    call(house, C, ask(b"r3"), ask(b"r4"))
    rids = {i: [m.rid for m in heard(house, BACK, i)] for i in (S, S2)}
    # Least loaded evens out what is held; least recently used goes by who was busy last.
    first_to = S if balance == "least_recently_used" else S2
    assert rids[first_to][0] == b"r3"
    assert sum(map(len, rids.values())) == 2


def test_answers_out_of_order_reach_the_right_callers() -> None:
    house = fabric()
    up(house)
    call(house, C, ask(b"r1"))
    call(house, C2, ask(b"r1"), ask(b"r2"))
    first, second, third = heard(house, BACK, S)
    serve(house, S, reply(third, payload=b"\x03"), reply(second, payload=b"\x02"))
    serve(house, S, reply(first, payload=b"\x01"))
    assert [m.payload for m in heard(house, FRONT, C)] == [b"\x01"]
    assert [m.payload for m in heard(house, FRONT, C2)] == [b"\x03", b"\x02"]


def test_no_service_can_answer_what_it_was_not_asked() -> None:
    house = fabric()
    up(house, S)
    up(house, S2)
    call(house, C, ask())
    (request,) = heard(house, BACK, S)
    spoofed = reply(request, payload=b"\x06")
    serve(house, S2, spoofed)
    serve(house, S, replace(spoofed, rid=b"other"), replace(spoofed, identity=C2))
    assert heard(house, FRONT, C) == heard(house, FRONT, C2) == []
    assert house.kinds().count("rejected") == 3
    serve(house, S, reply(request), reply(request))
    assert len(heard(house, FRONT, C)) == 1
    assert house.kinds().count("rejected") == 4


def test_a_reply_without_its_clients_identity_is_malformed() -> None:
    house = fabric()
    up(house)
    serve(house, S, replace(reply(ask()), identity=None), replace(ask(), kind=b"XYZ"))
    assert len(house.malformed) == 2


@pytest.mark.parametrize("identity", [b"\x00\xe4<\x98i", b"\x00\xff\xff\xff\xff"])
def test_a_client_whose_identity_is_no_text_gets_its_reply_through_an_alias(
    identity: bytes,
) -> None:
    house = fabric()
    up(house)
    call(house, identity, ask())
    (request,) = heard(house, BACK, S)
    assert request.identity == b"client#" + identity.hex().encode()
    serve(house, S, reply(request))
    assert [m.payload for m in heard(house, FRONT, identity)] == [b"\xa2ok"]


def test_a_failure_passes_as_the_service_said_it_and_is_on_record_in_words() -> None:
    house = fabric()
    up(house)
    call(house, C, ask())
    (request,) = heard(house, BACK, S)
    body = oldpack.encode({"code": 409, "userMessage": "u", "developerMessage": "locked"})
    serve(house, S, reply(request, b"409", body))
    (answer,) = heard(house, FRONT, C)
    assert (answer.status, answer.payload) == (b"409", body)
    assert (house.records[-1].fault, house.records[-1].detail) == ("task_failed", "locked")


@pytest.mark.parametrize(("status", "payload"), [(b"", b"\xc0"), (b"500", b"\xc1"), (b"abc", b"")])
def test_a_reply_without_a_sensible_status_is_a_failure_and_passes(
    status: bytes, payload: bytes
) -> None:
    house = fabric()
    up(house)
    call(house, C, ask())
    (request,) = heard(house, BACK, S)
    serve(house, S, reply(request, status, payload))
    assert [(m.status, m.payload) for m in heard(house, FRONT, C)] == [(status, payload)]
    assert house.records[-1].fault == "task_failed"


def test_the_request_of_an_instance_that_dies_goes_to_another() -> None:
    house = fabric()
    up(house, S)
    up(house, S2)
    call(house, C, ask())
    heard(house, BACK, S)
    for _ in range(4):
        house.wait(1.0)
        serve(house, S2, smi("HEARTBEAT"))
    requests = [m for m in heard(house, BACK, S2) if m.kind == REQ]
    assert requests == [ask(identity=C)]
    serve(house, S2, reply(requests[0]))
    assert len(heard(house, FRONT, C)) == 1


def test_replies_already_under_way_when_an_instance_goes_down_still_count() -> None:
    house = fabric(grace=1.0)
    up(house, S)
    up(house, S2)
    call(house, C, ask())
    (request,) = heard(house, BACK, S)
    serve(house, S, smi("DOWN"), reply(request))
    assert len(heard(house, FRONT, C)) == 1
    house.wait(2.0)
    assert [m for m in heard(house, BACK, S2) if m.kind == REQ] == []


def test_what_an_instance_that_went_down_did_not_answer_goes_to_another() -> None:
    house = fabric(grace=1.0)
    up(house, S)
    up(house, S2)
    call(house, C, ask())
    serve(house, S, smi("DOWN"))
    house.wait(1.1)
    assert [m.rid for m in heard(house, BACK, S2) if m.kind == REQ] == [RID]


def test_requests_wait_where_the_settings_say_so() -> None:
    house = fabric(services={"pong": replace(TERMS, patience=5.0)})
    call(house, C, ask())
    assert heard(house, FRONT, C) == []
    serve(house, S, smi("HEARTBEAT"))
    assert [m.kind for m in heard(house, BACK, S)] == [REP, REQ]


def test_a_service_that_never_answers_does_not_keep_its_request_for_ever() -> None:
    house = fabric(missed_allowed=1000)
    up(house)
    call(house, C, ask())
    house.wait(601)
    assert [m.status for m in heard(house, FRONT, C)] == [b"504"]


# --- traces ----------------------------------------------------------------------------------


def test_the_brokers_instants_are_added_where_they_are_missing() -> None:
    house = fabric(traces=True)
    up(house)
    call(house, C, ask(headers=NIL))
    (request,) = heard(house, BACK, S)
    at = house.now * 1000
    assert oldpack.decode(request.headers) == {"micro.bfer": at, "micro.bbes": at}
    house.now += 1.5
    serve(house, S, reply(request))
    (answer,) = heard(house, FRONT, C)
    later = at + 1500
    assert oldpack.decode(answer.headers) == {
        "micro.bfer": at, "micro.bbes": at, "micro.bber": later, "micro.bfes": later,
    }  # fmt: skip


def test_the_brokers_own_answers_give_the_headers_back() -> None:
    house = fabric(traces=True)
    call(house, C, ask(headers=oldpack.encode({"token": "abc"})))
    (answer,) = heard(house, FRONT, C)
    at = house.now * 1000
    assert oldpack.decode(answer.headers) == {"token": "abc", "micro.bfer": at, "micro.bfes": at}


# --- malformed -------------------------------------------------------------------------------


def test_a_client_sends_seven_frames() -> None:
    house = fabric()
    call(house, C, ask(identity=C))
    assert len(house.malformed) == 1


def test_a_part_of_no_request_is_malformed_and_a_bad_target_too() -> None:
    house = fabric()
    call(house, C, replace(ask(b"7"), kind=PRT))
    call(house, C, ask(address=write_address("PONG", "PING", target=",")))
    call(house, C, ask(address=write_address("PONG", "PING", target=5)))
    assert len(house.malformed) == 2
    assert [m.status for m in heard(house, FRONT, C)] == [b"404"]


def test_every_vector_of_a_peer_leaves_the_broker_working() -> None:
    house = fabric()
    links = {"client->broker": FRONT, "service->broker": BACK}
    for vector in VECTORS:
        if vector["direction"] in links and "[" not in vector["label"]:
            frames = [bytes.fromhex(frame) for frame in vector["frames_hex"]]
            house.say(links[vector["direction"]], b"peer#1", frames)
    assert house.malformed
    up(house, b"FRESH#1", "FRESH")
    call(house, C, ask(b"alive", address=write_address("FRESH", "PING")))
    assert len(heard(house, BACK, b"FRESH#1")) == 1


@pytest.mark.parametrize("number", [6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 62, 66, 90, 94, 98, 110])
def test_a_captured_call_passes_as_through_upstreams_broker(number: int) -> None:
    """Replay request and reply of real peers; but for instants, the same frames come out."""
    house = fabric()
    vectors = [[bytes.fromhex(f) for f in v["frames_hex"]] for v in VECTORS[number : number + 4]]
    asked, routed, answered, returned = map(decode, vectors)
    up(house, S, read_address(asked.address).sid)
    client = routed.identity
    assert client is not None
    call(house, client, asked)
    (request,) = heard(house, BACK, S)
    sid = read_address(asked.address).sid.upper()
    assert request == replace(routed, headers=asked.headers, address=request.address)
    assert read_address(request.address).sid == sid
    serve(house, S, answered)
    (reply_,) = heard(house, FRONT, client)
    assert reply_ == replace(returned, headers=answered.headers)


# --- anything --------------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        b"", b"ZSS:0.0", REQ, REP, PRT, RID, b"r", C, S, NIL, b"\x80", b"\x81\xa1x\xc4", b"200",
        b"102", b"100", b"null", b"\xc1", b"\xa4PONG", PING, write_address("SMI", "UP"),
        write_address("SMI", "HEARTBEAT", partial=True, credit=2), write_address("SMI", "DOWN"),
        write_address("TITANIC", "RESULT"), KEPT, write_address("PONG", "x", job="j", target="all"),
        b"\x82\xa3sid\xacTITANIC/PONG\xa1n\xcf" + b"\xff" * 8,
        b"\x82\xa3sid\xa4pong\xa1n\xcf" + b"\xff" * 8,
        write_address("PONG", "x", job=5, timeout="x", priority="y", partial=1),
        b"\x82\xa3sid\xa4PONG\xa8priority\xcf" + b"\xff" * 8,
    ]
)  # fmt: skip
headed = st.lists(pieces, min_size=6, max_size=6).map(lambda rest: [b"ZSS:0.0", *rest])
anything = st.lists(
    st.tuples(
        st.sampled_from([(FRONT, C), (BACK, S), (BACK, S2)]),
        st.lists(pieces, max_size=9) | headed | headed.map(lambda frames: [C, *frames]),
    ),
    max_size=14,
)


@given(anything)
def test_whatever_peers_say_the_broker_goes_on(
    said: list[tuple[tuple[str, bytes], list[bytes]]],
) -> None:
    house = fabric(traces=True)
    up(house)
    for (link, address), frames in said:
        house.say(link, address, frames)
    house.wait(700)
    serve(house, b"FRESH#1", smi("HEARTBEAT", "FRESH"))
    call(house, b"client#9", ask(b"alive", address=write_address("FRESH", "PING")))
    assert [m.kind for m in heard(house, BACK, b"FRESH#1")] == [REP, REQ]


@given(st.lists(pieces, max_size=9) | headed)
def test_whatever_a_broker_says_our_peers_go_on(frames: list[bytes]) -> None:
    client, worker = ClientSide(), WorkerSide(["math"])
    worker.receive(encode(ask(identity=C)))
    for each in (frames, [C, *frames]):
        assert isinstance(client.receive(each), list)
        assert isinstance(worker.receive(each), list)
