"""ZSS peers around the true broker: requests, replies and traces."""

from dataclasses import replace

import pytest
from tests.dialects.zss_messages import (
    BACK,
    C2,
    FRONT,
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
from dragoman.dialects.zss.settings import TERMS
from dragoman.dialects.zss.wire import (
    NIL,
    REP,
    REQ,
    write_address,
)

# --- requests and replies --------------------------------------------------------------------


def test_a_request_passes_byte_for_byte_with_its_client_before_it() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask(headers=b"\x81\xa1x\xc4", payload=b"\xc4", protocol=b"ZSS:9.9"))
    (request,) = heard(broker, BACK, S)
    assert request == ask(
        headers=b"\x81\xa1x\xc4", payload=b"\xc4", protocol=b"ZSS:9.9", identity=C
    )
    serve(broker, S, reply(request, payload=b"\xd8\x00\x01\xff"))
    (answer,) = heard(broker, FRONT, C)
    assert answer == replace(reply(request, payload=b"\xd8\x00\x01\xff"), identity=None)


def test_any_type_on_the_front_end_is_a_request() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, replace(ask(), kind=REP))
    assert [m.kind for m in heard(broker, BACK, S)] == [REQ]


def test_an_unknown_service_is_404_at_once_with_both_codes() -> None:
    broker = fabric()
    request = ask(address=write_address("GHOST", "PING"))
    call(broker, C, request)
    (answer,) = heard(broker, FRONT, C)
    assert replace(answer, payload=b"") == replace(request, kind=REP, status=b"404", payload=b"")
    said = oldpack.decode(answer.payload)
    assert said["developerMessage"] == "The resource could not be found."
    assert (said["code"], said["errorCode"]) == (404, 404)


def test_smi_on_the_front_end_is_just_an_unknown_service() -> None:
    broker = fabric()
    call(broker, C, ask(address=write_address("SMI", "UP"), payload=b"\xa4PONG"))
    assert [m.status for m in heard(broker, FRONT, C)] == [b"404"]
    assert broker.kinds() == ["refused"]


def test_the_sid_reaches_the_instance_in_capitals_and_the_rest_as_it_came() -> None:
    broker = fabric()
    up(broker, S, "Pong")
    address = oldpack.encode({"sid": "pOnG", "verb": "pIng", "sversion": "*", "x": 1})
    call(broker, C, ask(address=address))
    (request,) = heard(broker, BACK, S)
    assert request.address == oldpack.encode(
        {"sid": "PONG", "verb": "pIng", "sversion": "*", "x": 1}
    )


def test_an_instance_gets_the_next_request_when_it_has_answered() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask(b"r1"), ask(b"r2"))
    (first,) = heard(broker, BACK, S)
    serve(broker, S, reply(first))
    assert [m.rid for m in heard(broker, BACK, S)] == [b"r2"]


def test_instances_take_turns_in_the_order_they_came() -> None:
    broker = fabric(credit=4)
    instances = [b"PONG#%d" % n for n in range(3)]
    for instance in instances:
        up(broker, instance)
    turns = []
    for n in range(9):
        call(broker, C, ask(b"r%d" % n))
        turns += [i for i in instances if heard(broker, BACK, i)]
    assert turns == instances * 3


@pytest.mark.parametrize("balance", ["least_loaded", "least_recently_used"])
def test_the_way_to_share_work_is_chosen_per_service(balance: str) -> None:
    broker = fabric(services={"pong": replace(TERMS, balance=balance)}, credit=4)
    for instance in (S, S2):
        up(broker, instance)
    call(broker, C, ask(b"r1"), ask(b"r2"))
    (first,), (second,) = heard(broker, BACK, S), heard(broker, BACK, S2)
    assert (first.rid, second.rid) == (b"r1", b"r2")
    serve(broker, S2, reply(second))
    call(broker, C, ask(b"r3"), ask(b"r4"))
    rids = {i: [m.rid for m in heard(broker, BACK, i)] for i in (S, S2)}
    # Least loaded evens out what is held; least recently used goes by who was busy last.
    first_to = S if balance == "least_recently_used" else S2
    assert rids[first_to][0] == b"r3"
    assert sum(map(len, rids.values())) == 2


def test_answers_out_of_order_reach_the_right_callers() -> None:
    broker = fabric(credit=4)
    up(broker)
    call(broker, C, ask(b"r1"))
    call(broker, C2, ask(b"r1"), ask(b"r2"))
    first, second, third = heard(broker, BACK, S)
    serve(broker, S, reply(third, payload=b"\x03"), reply(second, payload=b"\x02"))
    serve(broker, S, reply(first, payload=b"\x01"))
    assert [m.payload for m in heard(broker, FRONT, C)] == [b"\x01"]
    assert [m.payload for m in heard(broker, FRONT, C2)] == [b"\x03", b"\x02"]


def test_no_service_can_answer_what_it_was_not_asked() -> None:
    broker = fabric()
    up(broker, S)
    up(broker, S2)
    call(broker, C, ask())
    (request,) = heard(broker, BACK, S)
    spoofed = reply(request, payload=b"\x06")
    serve(broker, S2, spoofed)
    serve(broker, S, replace(spoofed, rid=b"other"), replace(spoofed, identity=C2))
    assert heard(broker, FRONT, C) == heard(broker, FRONT, C2) == []
    assert broker.kinds().count("rejected") == 3
    serve(broker, S, reply(request), reply(request))
    assert len(heard(broker, FRONT, C)) == 1
    assert broker.kinds().count("rejected") == 4


def test_a_reply_without_its_clients_identity_is_malformed() -> None:
    broker = fabric()
    up(broker)
    serve(broker, S, replace(reply(ask()), identity=None), replace(ask(), kind=b"XYZ"))
    assert len(broker.malformed) == 2


@pytest.mark.parametrize("identity", [b"\x00\xe4<\x98i", b"\x00\xff\xff\xff\xff"])
def test_a_client_whose_identity_is_no_text_gets_its_reply_through_an_alias(
    identity: bytes,
) -> None:
    broker = fabric()
    up(broker)
    call(broker, identity, ask())
    (request,) = heard(broker, BACK, S)
    assert request.identity == b"client#" + identity.hex().encode()
    serve(broker, S, reply(request))
    assert [m.payload for m in heard(broker, FRONT, identity)] == [b"\xa2ok"]


def test_a_failure_passes_as_the_service_said_it_and_is_on_record_in_words() -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask())
    (request,) = heard(broker, BACK, S)
    body = oldpack.encode({"code": 409, "userMessage": "u", "developerMessage": "locked"})
    serve(broker, S, reply(request, b"409", body))
    (answer,) = heard(broker, FRONT, C)
    assert (answer.status, answer.payload) == (b"409", body)
    assert (broker.records[-1].fault, broker.records[-1].detail) == ("task_failed", "locked")


@pytest.mark.parametrize(("status", "payload"), [(b"", b"\xc0"), (b"500", b"\xc1"), (b"abc", b"")])
def test_a_reply_without_a_sensible_status_is_a_failure_and_passes(
    status: bytes, payload: bytes
) -> None:
    broker = fabric()
    up(broker)
    call(broker, C, ask())
    (request,) = heard(broker, BACK, S)
    serve(broker, S, reply(request, status, payload))
    assert [(m.status, m.payload) for m in heard(broker, FRONT, C)] == [(status, payload)]
    assert broker.records[-1].fault == "task_failed"


def test_the_request_of_an_instance_that_dies_goes_to_another() -> None:
    broker = fabric()
    up(broker, S)
    up(broker, S2)
    call(broker, C, ask())
    heard(broker, BACK, S)
    for _ in range(4):
        broker.wait(1.0)
        serve(broker, S2, smi("HEARTBEAT"))
    requests = [m for m in heard(broker, BACK, S2) if m.kind == REQ]
    assert requests == [ask(identity=C)]
    serve(broker, S2, reply(requests[0]))
    assert len(heard(broker, FRONT, C)) == 1


def test_replies_already_under_way_when_an_instance_goes_down_still_count() -> None:
    broker = fabric(grace=1.0)
    up(broker, S)
    up(broker, S2)
    call(broker, C, ask())
    (request,) = heard(broker, BACK, S)
    serve(broker, S, smi("DOWN"), reply(request))
    assert len(heard(broker, FRONT, C)) == 1
    broker.wait(2.0)
    assert [m for m in heard(broker, BACK, S2) if m.kind == REQ] == []


def test_what_an_instance_that_went_down_did_not_answer_goes_to_another() -> None:
    broker = fabric(grace=1.0)
    up(broker, S)
    up(broker, S2)
    call(broker, C, ask())
    serve(broker, S, smi("DOWN"))
    broker.wait(1.1)
    assert [m.rid for m in heard(broker, BACK, S2) if m.kind == REQ] == [RID]


def test_requests_wait_where_the_settings_say_so() -> None:
    broker = fabric(services={"pong": replace(TERMS, patience=5.0)})
    call(broker, C, ask())
    assert heard(broker, FRONT, C) == []
    serve(broker, S, smi("HEARTBEAT"))
    assert [m.kind for m in heard(broker, BACK, S)] == [REP, REQ]


def test_a_service_that_never_answers_does_not_keep_its_request_for_ever() -> None:
    broker = fabric(missed_allowed=1000)
    up(broker)
    call(broker, C, ask())
    broker.wait(601)
    assert [m.status for m in heard(broker, FRONT, C)] == [b"504"]


# --- traces ----------------------------------------------------------------------------------


def test_the_brokers_instants_are_added_where_they_are_missing() -> None:
    broker = fabric(traces=True)
    up(broker)
    call(broker, C, ask(headers=NIL))
    (request,) = heard(broker, BACK, S)
    at = broker.now * 1000
    assert oldpack.decode(request.headers) == {"micro.bfer": at, "micro.bbes": at}
    broker.now += 1.5
    serve(broker, S, reply(request))
    (answer,) = heard(broker, FRONT, C)
    later = at + 1500
    assert oldpack.decode(answer.headers) == {
        "micro.bfer": at, "micro.bbes": at, "micro.bber": later, "micro.bfes": later,
    }  # fmt: skip


def test_the_brokers_own_answers_give_the_headers_back() -> None:
    broker = fabric(traces=True)
    call(broker, C, ask(headers=oldpack.encode({"token": "abc"})))
    (answer,) = heard(broker, FRONT, C)
    at = broker.now * 1000
    assert oldpack.decode(answer.headers) == {"token": "abc", "micro.bfer": at, "micro.bfes": at}
