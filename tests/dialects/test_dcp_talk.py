"""DCP peers around the true broker."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.dcp_words import (
    C2,
    W2,
    C,
    W,
    ask,
    fabric,
    hear,
    register,
    say,
)

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.dcp.broker_side import service_name
from dragoman.dialects.dcp.client_side import DcpClientSide
from dragoman.dialects.dcp.settings import TERMS
from dragoman.dialects.dcp.wire import (
    NARROW,
    WIDE,
    DcpReply,
    DcpRequest,
    Ping,
    Pong,
    Reconnect,
    Registration,
    decode,
    encode,
)
from dragoman.dialects.dcp.worker_side import DcpWorkerSide
from dragoman.model.terms import Terms

# --- plain peers -----------------------------------------------------------------------------


def test_a_request_goes_to_the_worker_with_the_client_filled_in_and_the_reply_back() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, C, DcpRequest(b"echo", b"", (b"meta", b"", b"data", b"", b"more")))
    assert hear(house, W) == [DcpRequest(b"echo", C, (b"meta", b"", b"data", b"", b"more"))]
    say(house, W, DcpReply(C, (b"meta", b"", b"", b"answer")))
    assert hear(house, C) == [DcpReply(C, (b"meta", b"", b"", b"answer"))]
    assert house.kinds("job-1") == ["submitted", "dispatched", "ended"]


def test_both_widths_meet_in_the_broker_and_only_the_type_frame_changes() -> None:
    house = fabric()
    register(house, W, b"echo", WIDE)
    say(house, C, ask(width=NARROW))
    assert hear(house, W) == [ask(client=C, width=WIDE)]
    say(house, W, DcpReply(C, (b"m", b"", b"a"), WIDE))
    assert hear(house, C) == [DcpReply(C, (b"m", b"", b"a"), NARROW)]


def test_a_peer_is_written_to_in_the_width_it_spoke_last() -> None:
    house = fabric()
    register(house, W, b"echo", NARROW)
    say(house, W, Ping(WIDE))
    assert hear(house, W) == [Pong(WIDE)]
    say(house, C, ask())
    assert hear(house, W) == [ask(client=C, width=WIDE)]


def test_the_width_of_a_peer_not_heard_for_long_is_forgotten() -> None:
    house = fabric(remembered_peers=2)
    say(house, C, ask())
    for address in (C2, W2):
        say(house, address, Ping(NARROW))
        assert hear(house, address) == [Reconnect(NARROW)]
    say(house, W, Registration(b"echo"))
    say(house, W, DcpReply(C, (b"m", b"", b"a"), NARROW))
    assert hear(house, C) == [DcpReply(C, (b"m", b"", b"a"), WIDE)]


def test_a_ping_is_answered_with_a_pong_and_of_a_stranger_with_reconnect() -> None:
    house = fabric()
    say(house, W, Ping(WIDE))
    assert hear(house, W) == [Reconnect(WIDE)]
    register(house, W, b"echo", WIDE)
    say(house, W, Ping(WIDE))
    assert hear(house, W) == [Pong(WIDE)]


def test_requests_wait_for_a_worker_and_reach_it_in_order() -> None:
    house = fabric()
    say(house, C, ask(b"1"))
    register(house, W, b"other")
    say(house, C2, ask(b"2"))
    say(house, W2, Registration(b"echo"))
    assert hear(house, W2) == [Registration(b"echo"), ask(b"1", client=C)]
    say(house, W2, DcpReply(C, (b"1", b"", b"one")))
    assert hear(house, W2) == [ask(b"2", client=C2)]
    say(house, W2, DcpReply(C2, (b"2", b"", b"two")))
    assert hear(house, C) == [DcpReply(C, (b"1", b"", b"one"))]
    assert hear(house, C2) == [DcpReply(C2, (b"2", b"", b"two"))]


def test_many_requests_of_one_client_are_in_flight_and_told_apart_by_metadata() -> None:
    house = fabric()
    for address in (W, W2):
        register(house, address, b"echo")
    say(house, C, ask(b"1"), ask(b"2"), ask(b"3"))
    assert hear(house, W) == [ask(b"1", client=C)]
    assert hear(house, W2) == [ask(b"2", client=C)]
    say(house, W2, DcpReply(C, (b"2", b"", b"two")))
    assert hear(house, W2) == [ask(b"3", client=C)]
    say(house, W, DcpReply(C, (b"1", b"", b"one")))
    assert hear(house, C) == [DcpReply(C, (b"2", b"", b"two")), DcpReply(C, (b"1", b"", b"one"))]


def test_a_ping_of_a_busy_worker_asks_for_one_more_request() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, C, *(ask(n) for n in (b"1", b"2", b"3")))
    assert hear(house, W) == [ask(b"1", client=C)]
    say(house, W, Ping())
    assert hear(house, W) == [Pong(), ask(b"2", client=C)]
    # Out of order, and each is known by its metadata.
    say(house, W, DcpReply(C, (b"2", b"", b"two")))
    assert hear(house, W) == [ask(b"3", client=C)]
    say(house, W, DcpReply(C, (b"1", b"", b"one")), DcpReply(C, (b"3", b"", b"three")))
    assert [m.tail[0] for m in hear(house, C) if isinstance(m, DcpReply)] == [b"2", b"1", b"3"]


def test_pings_of_a_busy_worker_can_be_signs_of_life_only() -> None:
    house = fabric(ping_asks_for_work=False)
    register(house, W, b"echo")
    say(house, C, ask(b"1"), ask(b"2"))
    hear(house, W)
    say(house, W, Ping())
    assert hear(house, W) == [Pong()]


def test_pings_of_a_free_worker_do_not_add_up_to_more_than_one_request() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, W, Ping(), Ping(), Ping())
    say(house, C, ask(b"1"), ask(b"2"))
    assert hear(house, W) == [Pong(), Pong(), Pong(), ask(b"1", client=C)]


def test_of_requests_that_look_the_same_the_oldest_is_answered_first() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, C, ask(b"same", b"first"), ask(b"same", b"second"))
    say(house, W, Ping(), DcpReply(C, (b"same", b"", b"1")), DcpReply(C, (b"same", b"", b"2")))
    assert hear(house, C) == [DcpReply(C, (b"same", b"", b"1")), DcpReply(C, (b"same", b"", b"2"))]
    ended = [r.job for r in house.records if r.kind == "ended"]
    assert ended == ["job-1", "job-2"]


def test_a_worker_that_forgets_the_metadata_is_understood_while_it_has_one_request() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, C, ask(b"m"))
    say(house, W, DcpReply(C, (b"", b"a")))
    assert hear(house, C) == [DcpReply(C, (b"m", b"", b"a"))]


def test_work_is_passed_on_from_service_to_service_and_the_first_client_gets_the_reply() -> None:
    house = fabric()
    register(house, W, b"front")
    register(house, W2, b"back", WIDE)
    say(house, C, ask(b"meta", b"raw", b"front"))
    assert hear(house, W) == [ask(b"meta", b"raw", b"front", client=C)]
    say(house, W, ask(b"meta", b"partly done", b"back", client=C))
    assert hear(house, W2) == [ask(b"meta", b"partly done", b"back", client=C, width=WIDE)]
    say(house, W2, DcpReply(C, (b"meta", b"", b"done"), WIDE))
    assert hear(house, C) == [DcpReply(C, (b"meta", b"", b"done"))]
    assert house.kinds("job-1") == ["submitted", "dispatched", "forwarded", "dispatched", "ended"]
    # Passing on is responding: the front worker is free again.
    say(house, C, ask(b"next", b"raw", b"front"))
    assert hear(house, W) == [ask(b"next", b"raw", b"front", client=C)]


def test_a_worker_that_asks_its_own_service_for_the_very_same_hands_it_back() -> None:
    house = fabric()
    for address in (W, W2):
        register(house, address, b"echo")
    say(house, C, ask())
    say(house, W, ask(client=C))
    assert hear(house, W2) == [ask(client=C)]
    assert house.kinds("job-1") == ["submitted", "dispatched", "requeued", "dispatched"]


def test_a_worker_may_ask_for_work_of_its_own() -> None:
    house = fabric()
    register(house, W, b"front")
    register(house, W2, b"back")
    say(house, W, ask(b"mine", service=b"back"))
    assert hear(house, W2) == [ask(b"mine", service=b"back", client=W)]
    say(house, W2, DcpReply(W, (b"mine", b"", b"yours")))
    assert hear(house, W) == [DcpReply(W, (b"mine", b"", b"yours"))]


def test_a_client_that_names_another_gets_the_reply_itself_and_it_is_on_record() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, C, ask(client=C2))
    assert hear(house, W) == [ask(client=C)]
    assert [r.detail for r in house.records if r.kind == "rejected"] == [
        "named the client C2; its own address was put instead"
    ]


def test_a_client_may_name_another_where_the_settings_say_so() -> None:
    house = fabric(takes_named_clients=True)
    register(house, W, b"echo")
    say(house, C, ask(client=C2))
    say(house, W, DcpReply(C2, (b"m", b"", b"a")))
    assert hear(house, C) == []
    assert hear(house, C2) == [DcpReply(C2, (b"m", b"", b"a"), WIDE)]


def test_a_reply_that_nobody_waits_for_reaches_nobody_and_is_on_record() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, W, DcpReply(C, (b"m", b"", b"a")))
    say(house, W2, DcpReply(C, (b"m", b"", b"a")))
    assert hear(house, C) == []
    assert house.kinds() == ["joined", "rejected", "rejected"]


def test_what_has_no_meaning_from_a_stranger_is_on_record_and_has_no_effect() -> None:
    house = fabric()
    say(house, W, Pong(), Reconnect())
    assert house.kinds() == ["rejected", "rejected"]
    say(house, W, Ping())
    assert hear(house, W) == [Reconnect()]


def test_a_second_registration_replaces_the_first() -> None:
    house = fabric()
    register(house, W, b"old")
    register(house, W, b"new")
    say(house, C, ask(service=b"old"), ask(service=b"new"))
    assert hear(house, W) == [ask(service=b"new", client=C)]


def test_a_registration_while_a_request_is_out_lets_the_assignment_stand() -> None:
    house = fabric()
    register(house, W, b"echo")
    say(house, C, ask(b"1"), ask(b"2"))
    hear(house, W)
    say(house, W, Registration(b"echo"))
    # It counts as a response, so the worker may have the next one beside the first.
    assert hear(house, W) == [Registration(b"echo"), ask(b"2", client=C)]
    say(house, W, DcpReply(C, (b"1", b"", b"one")), DcpReply(C, (b"2", b"", b"two")))
    assert len(hear(house, C)) == 2


def test_service_names_are_any_bytes() -> None:
    house = fabric()
    for name in (b"", b"all", b"\x00\xff", b"datastore writer", "größe".encode(), b"0x41"):
        register(house, W, name)
        say(house, C, ask(service=name))
        assert hear(house, W) == [ask(service=name, client=C)]
        say(house, W, DcpReply(C, (b"m", b"", name)))
        assert hear(house, C) == [DcpReply(C, (b"m", b"", name))]
    names = {service_name(n) for n in (b"", b"all", b"0x", b"\x00")}
    assert len(names) == 4
    assert "all" not in names


def test_an_idle_worker_that_falls_silent_is_asked_to_register_again() -> None:
    house = fabric(beat_every=1.0, missed_allowed=3)
    register(house, W, b"echo", WIDE)
    house.wait(2.9)
    assert hear(house, W) == []
    house.wait(0.2)
    assert hear(house, W) == [Reconnect(WIDE)]
    say(house, W, Ping(WIDE))
    assert hear(house, W) == [Reconnect(WIDE)]


def test_a_worker_that_computes_in_silence_keeps_its_job_and_is_looked_after() -> None:
    house = fabric(beat_every=1.0, missed_allowed=3, missed_allowed_busy=100)
    register(house, W, b"echo")
    say(house, C, ask())
    hear(house, W)
    house.wait(2.9)
    assert hear(house, W) == []
    house.wait(50)
    # Pongs are sent to find out whether there is still somebody.
    assert set(hear(house, W)) == {Pong()}
    say(house, W, DcpReply(C, (b"m", b"", b"a")))
    assert hear(house, C) == [DcpReply(C, (b"m", b"", b"a"))]
    assert house.kinds("job-1") == ["submitted", "dispatched", "ended"]


def test_the_job_of_a_worker_that_is_lost_goes_to_another_and_its_late_reply_is_on_record() -> None:
    house = fabric(beat_every=1.0, missed_allowed=3, missed_allowed_busy=5)
    register(house, W, b"echo")
    say(house, C, ask())
    hear(house, W)
    house.wait(5.1)
    assert hear(house, W)[-1] == Reconnect()
    say(house, W2, Registration(b"echo"))
    assert hear(house, W2) == [Registration(b"echo"), ask(client=C)]
    say(house, W, DcpReply(C, (b"m", b"", b"late")))
    assert hear(house, C) == []
    assert hear(house, W) == [Reconnect()]
    say(house, W2, DcpReply(C, (b"m", b"", b"good")))
    assert hear(house, C) == [DcpReply(C, (b"m", b"", b"good"))]
    assert "late" in house.kinds("job-1")


def test_a_request_nobody_serves_ends_in_an_empty_reply() -> None:
    house = fabric(terms=Terms(patience=5.0, strict=False))
    say(house, C, ask(b"m1", service=b"ghost"))
    house.wait(5.1)
    assert hear(house, C) == [DcpReply(C, (b"m1", b""))]
    assert house.records[-1].fault == "no_worker"


def test_a_request_nobody_serves_ends_in_silence_where_the_settings_say_so() -> None:
    house = fabric(terms=Terms(patience=5.0, strict=False), faults="silent")
    say(house, C, ask(service=b"ghost"))
    house.wait(5.1)
    assert hear(house, C) == []
    assert house.records[-1].fault == "no_worker"


def test_terms_may_differ_per_service() -> None:
    house = fabric(services={"now": Terms(patience=0.0, strict=False)})
    say(house, C, ask(b"1", service=b"now"), ask(b"2", service=b"later"))
    assert hear(house, C) == [DcpReply(C, (b"1", b""))]


def test_a_worker_that_could_not_be_reached_is_free_again_with_its_next_ping() -> None:
    house = fabric()
    register(house, W, b"echo")
    house.gone.add(("dcp", W))
    say(house, C, ask())
    assert hear(house, W) == []
    house.gone.clear()
    say(house, W, Ping())
    house.wait(1.5)
    assert ask(client=C) in hear(house, W)
    say(house, W, DcpReply(C, (b"m", b"", b"a")))
    assert hear(house, C) == [DcpReply(C, (b"m", b"", b"a"))]


def test_a_broker_that_lost_its_memory_gets_its_workers_back_by_their_next_ping() -> None:
    house = fabric()
    say(house, W, Ping(WIDE))
    assert hear(house, W) == [Reconnect(WIDE)]
    register(house, W, b"lock", WIDE)
    say(house, C, ask(service=b"lock"))
    assert hear(house, W) == [ask(service=b"lock", client=C, width=WIDE)]


def test_all_malformed_vectors_leave_the_broker_working() -> None:
    house = fabric()
    vectors = json.loads((Path(__file__).parents[1] / "vectors/dcp/vectors.json").read_text())
    for vector in vectors:
        house.say("dcp", b"X", tuple(bytes.fromhex(f) for f in vector["frames_hex"]))
    assert len(house.malformed) == 14  # 13, and the ROUTER's view with its extra frame
    register(house, W, b"fresh")
    say(house, C, ask(b"alive", service=b"fresh"))
    assert hear(house, W) == [ask(b"alive", client=C, service=b"fresh")]


def test_a_question_about_no_job_is_malformed() -> None:
    house = fabric()
    for note in (b'dragoman:{"ask":"result"}', b'dragoman:{"ask":"fly","job":"j"}'):
        say(house, C, DcpRequest(b"", b"", (note, b"")))
    say(house, C, DcpRequest(b"s", b"", (b'dragoman:{"job":"j","target":","}', b"")))
    assert len(house.malformed) == 3


def test_the_defaults_are_relaxed_and_patient() -> None:
    assert not TERMS.strict
    assert TERMS.patience == 60


pieces = st.sampled_from(
    [
        b"", b"DGBX\x01", b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06", b"\x04\0\0\0",
        b"echo", C, b"m", b'dragoman:{"job":"j"}', b'dragoman:{"job":1,"credit":[],"kind":{}}',
        b'dragoman:{"ask":"cancel","job":"j"}', b'dragoman:{"ask":"input","job":"j"}',
        b'dragoman:{"kind":"fault","code":[]}', b'dragoman:{"kind":"progress"}',
    ]
)  # fmt: skip
anything = st.lists(
    st.tuples(
        st.sampled_from([C, W]),
        st.lists(pieces, max_size=7)
        | st.lists(pieces, max_size=6).map(lambda rest: [b"", b"DGBX\x01", *rest])
        | st.lists(st.binary(max_size=5), max_size=5),
    ),
    max_size=12,
)


@given(anything)
def test_whatever_peers_say_the_broker_goes_on(said: list[tuple[bytes, list[bytes]]]) -> None:
    house = fabric()
    register(house, W, b"echo")
    for address, frames in said:
        house.say("dcp", address, frames)
    house.wait(700)
    say(house, b"W9", Registration(b"fresh"))
    say(house, b"C9", ask(service=b"fresh"))
    assert ask(service=b"fresh", client=b"C9") in hear(house, b"W9")


@given(st.lists(pieces, max_size=8))
def test_whatever_a_broker_says_our_peers_go_on(frames: list[bytes]) -> None:
    client, worker = DcpClientSide(), DcpWorkerSide("echo")
    worker.receive(encode(DcpRequest(b"echo", C, (b"m", b"", b"d"))))
    for head in ([], [b"", b"DGBX\x01"]):
        client.receive([*head, *frames])
        worker.receive([*head, *frames])
    with pytest.raises(MalformedMessage):
        decode([b"x"])
