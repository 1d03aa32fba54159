"""ZSS peers, and our own client and worker sides, around the true broker."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.fabric import Fabric

from dragoman.dialects.base import Frames
from dragoman.dialects.talk import (
    Alive,
    Chunk,
    Dispatched,
    Finished,
    InputAsked,
    InputGiven,
    Notice,
    Order,
    Progress,
    Queued,
    Standing,
    Stop,
    Unsupported,
    Word,
    Work,
)
from dragoman.dialects.talk import Reply as SendNow
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.broker_side import broker_sides
from dragoman.dialects.zss.client_side import ClientSide
from dragoman.dialects.zss.dress import Dress
from dragoman.dialects.zss.settings import TERMS, Settings
from dragoman.dialects.zss.wire import (
    NIL,
    PRT,
    REP,
    REQ,
    Message,
    decode,
    encode,
    read_address,
    write_address,
)
from dragoman.dialects.zss.worker_side import WorkerSide
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL

FRONT, BACK = "zss", "zss_backend"
C, C2, S, S2 = b"client#1", b"client#2", b"PONG#1", b"PONG#2"
RID = b"c50fd390-e12e-11f1-a42a-5191b11db4f3"
PING = write_address("PONG", "PING")
VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors/zss/vectors.json").read_text()
)


def fabric(**settings: Any) -> Fabric:
    numbers = count(1)
    chosen = Settings(**{"traces": False} | settings)
    ids = (f"job-{n}" for n in numbers)
    return Fabric(*broker_sides(wardrobe={"zss": Dress()}, ids=lambda: next(ids), settings=chosen))


def ask(rid: bytes = RID, payload: bytes = b"\xa2hi", **more: Any) -> Message:
    said: dict[str, Any] = {"address": PING, "status": b"null", **more}
    return Message(REQ, rid, payload=payload, **said)


def call(house: Fabric, client: bytes, *messages: Message) -> None:
    house.say(FRONT, client, *(encode(m) for m in messages))


def serve(house: Fabric, instance: bytes, *messages: Message) -> None:
    house.say(BACK, instance, *(encode(m) for m in messages))


def heard(house: Fabric, link: str, address: bytes) -> list[Message]:
    return [decode(frames) for frames in house.hear(link, address)]


def smi(verb: str, sid: str = "PONG", **more: Any) -> Message:
    return Message(
        REQ, b"smi", write_address("SMI", verb), NIL, b"null", oldpack.encode(sid), **more
    )


def up(house: Fabric, instance: bytes = S, sid: str = "PONG") -> None:
    serve(house, instance, smi("UP", sid, identity=instance))
    assert [m.status for m in heard(house, BACK, instance)] == [b"200"]


def reply(m: Message, status: bytes = b"200", payload: bytes = b"\xa2ok") -> Message:
    return replace(m, kind=REP, status=status, payload=payload)


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

KEPT = write_address("TITANIC/PONG", "PING")


def fetch(rid: bytes = RID, verb: str = "RESULT") -> Message:
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


def test_a_refused_request_to_titanic_is_not_confirmed() -> None:
    house = fabric()
    up(house)
    call(house, C, ask())
    call(house, C2, ask(address=KEPT, payload=b"\xa3you"))
    assert [m.status for m in heard(house, FRONT, C2)] == [b"409"]


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


# --- our own peers ---------------------------------------------------------------------------


class Peer:
    """Our own client or worker side, plugged into the fabric."""

    def __init__(
        self, house: Fabric, link: str, address: bytes, side: ClientSide | WorkerSide
    ) -> None:
        self.house, self.link, self.address, self.side = house, link, address, side

    def send(self, messages: list[Frames]) -> None:
        self.house.say(self.link, self.address, *messages)

    def heard(self) -> list[Any]:
        said: list[Notice | Word] = []
        for frames in self.house.hear(self.link, self.address):
            said += self.side.receive(frames)
        return said


def our_worker(house: Fabric, address: bytes = S, **more: Any) -> tuple[Peer, WorkerSide]:
    side = WorkerSide(["math"], **more)
    peer = Peer(house, BACK, address, side)
    peer.send(side.join())
    assert peer.heard() == [Alive()]
    return peer, side


ADD = Order(JobId("j1"), "math", Call("add", (), {"x": 2, "y": 3}, timeout=9.0))


def start(house: Fabric) -> tuple[Peer, ClientSide, Peer, WorkerSide]:
    """Bring one call from our client to our worker; its ticket is 1."""
    peer, worker = our_worker(house)
    client = ClientSide()
    caller = Peer(house, FRONT, C, client)
    caller.send(client.submit(ADD))
    call_ = Call("add", (), {"x": 2, "y": 3}, timeout=9.0)
    assert peer.heard() == [Work("1", JobId("j1"), call_, "MATH", "client#1", 9.0)]
    assert caller.heard() == [Queued(JobId("j1")), Dispatched(JobId("j1"), (WorkerName("PONG#1"),))]
    return caller, client, peer, worker


def test_our_client_calls_our_worker() -> None:
    house = fabric()
    caller, _, peer, worker = start(house)
    peer.send(worker.take("1"))
    peer.send(worker.finish("1", Answer(5)))
    answers = (Answer(5, worker="PONG#1"),)
    assert caller.heard() == [Finished(JobId("j1"), answers, state=JobState.SUCCEEDED)]
    submitted = next(r for r in house.records if r.kind == "submitted")
    assert (submitted.job, submitted.task, submitted.service) == ("j1", "add", "math")


def test_the_same_order_again_is_the_same_job() -> None:
    house = fabric()
    caller, client, peer, worker = start(house)
    caller.send(client.submit(ADD))
    assert peer.heard() == []
    peer.send(worker.finish("1", Answer(5)))
    assert caller.heard()[-1].answers == (Answer(5, worker="PONG#1"),)


def test_a_stream_of_replies_travels_in_parts() -> None:
    house = fabric()
    caller, client, peer, worker = start(house)
    peer.send(worker.progress("1", {"done": 1}))
    peer.send(worker.chunk("1", b"\x00bytes"))
    peer.send(worker.ask_input("1", "r1", "sure?"))
    assert caller.heard() == [
        Progress(JobId("j1"), {"done": 1}, "PONG#1"),
        Chunk(JobId("j1"), b"\x00bytes", "PONG#1"),
        InputAsked(JobId("j1"), "r1", "sure?", "PONG#1"),
    ]
    caller.send(client.give_input(JobId("j1"), "r1", "yes", "PONG#1"))
    assert peer.heard() == [InputGiven("1", "r1", "yes")]


def test_a_stream_of_requests_travels_in_parts() -> None:
    house = fabric()
    caller, _, peer, worker = start(house)
    address = write_address("MATH", "ADD", job="j1")
    for n in (1, 2):
        caller.send([encode(Message(PRT, b"j1", address, status=b"206", payload=bytes([n])))])
    assert peer.heard() == [InputGiven("1", "", 1), InputGiven("1", "", 2)]
    peer.send(worker.finish("1", Answer(3)))
    caller.heard()
    caller.send([encode(Message(PRT, b"j1", address, status=b"206", payload=b"\x03"))])
    (told,) = caller.heard()
    assert isinstance(told, Standing)
    assert "not used" in told.detail


def test_a_client_that_reads_no_parts_gets_one_message() -> None:
    house = fabric()
    peer, worker = our_worker(house)
    call(house, C, ask(address=write_address("MATH", "ADD")))
    assert [type(w) for w in peer.heard()] == [Work]
    assert worker.progress("1", 1) == worker.chunk("1", b"x") == []
    with pytest.raises(Unsupported, match="questions"):
        worker.ask_input("1", "r", "?")
    # Even if the service says something on the way, the client would take it for the reply.
    (request,) = worker._requests.values()
    peer.send([encode(replace(request, kind=PRT, status=b"102"))])
    assert heard(house, FRONT, C) == []
    peer.send(worker.finish("1", Answer(5)))
    assert [m.status for m in heard(house, FRONT, C)] == [b"200"]


def test_a_service_that_reads_no_parts_is_sent_none() -> None:
    house = fabric()
    up(house, S, "math")
    client = ClientSide()
    caller = Peer(house, FRONT, C, client)
    caller.send(client.submit(ADD))
    assert len(heard(house, BACK, S)) == 1
    caller.send(client.give_input(JobId("j1"), "r", "x", ""))
    caller.send(client.cancel(JobId("j1")))
    assert heard(house, BACK, S) == []
    assert caller.heard()[-1].state == "cancelled"


def test_a_fault_of_our_worker_reaches_our_client_by_name() -> None:
    house = fabric()
    caller, _, peer, worker = start(house)
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    peer.send(worker.finish("1", Answer(fault=fault)))
    expected = Finished(
        JobId("j1"), (Answer(fault=fault, worker="PONG#1"),), fault, JobState.FAILED
    )
    assert caller.heard() == [expected]


def test_a_cancel_is_told_to_our_worker_and_confirmed() -> None:
    house = fabric()
    caller, client, peer, worker = start(house)
    caller.send(client.cancel(JobId("j1")))
    assert peer.heard() == [Stop("1")]
    peer.send(worker.finish("1", Answer(fault=Fault(FaultCode.CANCELLED, "stopped"))))
    finished, standing = caller.heard()
    assert finished.state == JobState.CANCELLED
    assert standing == Standing(JobId("j1"), "cancelled", "stopped")


def test_a_result_is_fetched_later_and_a_job_never_heard_of_is_unknown() -> None:
    house = fabric()
    caller, client, peer, worker = start(house)
    caller.send(client.ask(JobId("j1")))
    assert caller.heard() == [Standing(JobId("j1"), "running")]
    peer.send(worker.finish("1", Answer(5)))
    caller.heard()
    caller.send(client.ask(JobId("j1")))
    assert caller.heard() == [Finished(JobId("j1"), (Answer(5),), state=JobState.SUCCEEDED)]
    caller.send(client.ask(JobId("j9")))
    assert [n.state for n in caller.heard()] == ["unknown"]


def test_a_call_to_all_instances_is_gathered_into_one_reply() -> None:
    house = fabric()
    peers = [our_worker(house, address) for address in (S, S2)]
    client = ClientSide()
    caller = Peer(house, FRONT, C, client)
    caller.send(client.submit(Order(JobId("j1"), "math", Call("add"), ALL)))
    assert [len(peer.heard()) for peer, _ in peers] == [1, 1]
    caller.heard()
    peers[1][0].send(peers[1][1].finish("1", Answer(raw=b"\xff")))
    assert caller.heard() == []
    fault = Fault(FaultCode.TASK_FAILED, "boom")
    peers[0][0].send(peers[0][1].finish("1", Answer(fault=fault)))
    answers = (Answer(raw=b"\xff", worker="PONG#2"), Answer(fault=fault, worker="PONG#1"))
    assert caller.heard() == [Finished(JobId("j1"), answers, fault, JobState.FAILED)]
    caller.send(client.ask(JobId("j1")))
    (again,) = caller.heard()
    assert set(again.answers) == set(answers)


def test_our_worker_says_how_much_it_can_hold() -> None:
    house = fabric(services={"math": replace(TERMS, patience=5.0)})
    peer, worker = our_worker(house, concurrency=2)
    for n in range(4):
        call(house, C, ask(b"r%d" % n, address=write_address("MATH", "x")))
    assert len(peer.heard()) == 2
    peer.send(worker.finish("1", Answer(1)))
    assert len(peer.heard()) == 1


def test_our_worker_hands_a_job_back_and_passes_one_on() -> None:
    house = fabric()
    caller, _, peer, worker = start(house)
    other, other_side = our_worker(house, S2)
    peer.send(worker.hand_back("1"))
    assert [type(w) for w in other.heard()] == [Work]
    up(house, b"BACK#1", "back")
    other.send(other_side.forward("1", "back", Call("rest", ("of it",))))
    (passed,) = heard(house, BACK, b"BACK#1")
    assert read_address(passed.address).verb == "rest"
    serve(house, b"BACK#1", reply(passed, payload=b"\xa4done"))
    assert caller.heard()[-1].answers == (Answer("done", worker="BACK#1"),)
    assert house.kinds("j1")[-3:] == ["forwarded", "dispatched", "ended"]


def test_our_worker_leaves_with_down_and_its_heartbeat_registers_it_anywhere() -> None:
    house = fabric()
    side = WorkerSide(["math", "more"])
    peer = Peer(house, BACK, S, side)
    peer.send(side.beat())
    assert peer.heard() == [Alive(), Alive()]
    call(house, C, ask(address=write_address("MORE", "x")))
    assert [type(w) for w in peer.heard()] == [Work]
    peer.send(side.finish("1", Answer(1)))
    peer.send(side.leave())
    assert peer.heard() == [Alive(), Alive()]
    call(house, C, ask(b"r9", address=write_address("MATH", "x")))
    assert [m.status for m in heard(house, FRONT, C)] == [b"200", b"404"]


def test_our_worker_started_anew_does_not_leave_its_old_job_hanging() -> None:
    house = fabric()
    start(house)
    reborn = WorkerSide(["math"])
    peer = Peer(house, BACK, S, reborn)
    peer.send(reborn.join())
    assert [type(w) for w in peer.heard()] == [Alive, Work]


def test_our_worker_answers_what_it_cannot_read_and_ignores_what_is_not_for_it() -> None:
    worker = WorkerSide(["math"])
    (said,) = worker.receive(encode(ask(identity=C, payload=b"\xc1")))
    assert isinstance(said, SendNow)
    assert decode(said.frames).status == b"400"
    for frames in ([b"junk"], encode(ask()), encode(reply(ask(identity=C)))):
        assert worker.receive(frames) == []
    assert worker.receive(encode(replace(ask(identity=C), kind=PRT))) == []
    assert worker.finish("9", Answer(1)) == worker.progress("9", 1) == []
    assert worker.forward("9", "s", Call()) == []
    with pytest.raises(Unsupported, match="events"):
        worker.publish("t", 1)


def test_our_worker_says_so_when_its_result_has_no_form() -> None:
    worker = WorkerSide(["math"])
    worker.receive(encode(ask(identity=C)))
    (frames,) = worker.finish("1", Answer(2**60 + 1))
    assert decode(frames).status == b"422"


def test_our_client_ignores_what_is_not_for_it_and_says_what_zss_lacks() -> None:
    client = ClientSide()
    assert client.hello() == []
    for frames in ([b"junk"], encode(ask()), encode(reply(ask(b"\xff")))):
        assert client.receive(frames) == []
    with pytest.raises(Unsupported, match="events"):
        client.subscribe(("*",), 0)
    with pytest.raises(Unsupported, match="job id"):
        client.submit(Order(JobId("j"), "s", Call(), key="k"))


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (FaultCode.NO_WORKER, JobState.FAILED),
        (FaultCode.JOB_TIMEOUT, JobState.EXPIRED),
        (FaultCode.EXHAUSTED, JobState.DEAD),
    ],
)
def test_our_client_knows_how_a_job_ended(code: FaultCode, state: JobState) -> None:
    client = ClientSide()
    house = fabric()
    caller = Peer(house, FRONT, C, client)
    caller.send(client.submit(Order(JobId("j1"), "ghost", Call("x"))))
    (finished,) = caller.heard()
    assert finished.fault.code is FaultCode.NO_WORKER
    worker = WorkerSide(["math"])
    worker.receive(encode(ask(b"j1", identity=C)))
    (frames,) = worker.finish("1", Answer(fault=Fault(code, "w")))
    (notice,) = client.receive(encode(replace(decode(frames), identity=None)))
    assert isinstance(notice, Finished)
    assert notice.state is state


# --- anything --------------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        b"", b"ZSS:0.0", REQ, REP, PRT, RID, b"r", C, S, NIL, b"\x80", b"\x81\xa1x\xc4", b"200",
        b"102", b"100", b"null", b"\xc1", b"\xa4PONG", PING, write_address("SMI", "UP"),
        write_address("SMI", "HEARTBEAT", partial=True, credit=2), write_address("SMI", "DOWN"),
        write_address("TITANIC", "RESULT"), KEPT, write_address("PONG", "x", job="j", target="all"),
        write_address("PONG", "x", job=5, timeout="x", priority="y", partial=1),
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
