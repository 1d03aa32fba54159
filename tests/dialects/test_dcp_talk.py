"""DCP peers with the real broker."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.dcp_messages import (
    C2,
    W2,
    C,
    W,
    ask,
    hear,
    make_fabric,
    register,
    say,
)

from dragoman.dialects.base import MalformedMessage
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
from dragoman.dialects.note_requests import service_name
from dragoman.model.terms import Terms

# --- plain peers -----------------------------------------------------------------------------


def test_a_request_goes_to_the_worker_with_the_client_filled_in_and_the_reply_back() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, C, DcpRequest(b"echo", b"", (b"meta", b"", b"data", b"", b"more")))
    assert hear(fabric, W) == [DcpRequest(b"echo", C, (b"meta", b"", b"data", b"", b"more"))]
    say(fabric, W, DcpReply(C, (b"meta", b"", b"", b"answer")))
    assert hear(fabric, C) == [DcpReply(C, (b"meta", b"", b"", b"answer"))]
    assert fabric.kinds("job-1") == ["submitted", "dispatched", "ended"]


def test_both_widths_meet_in_the_broker_and_only_the_type_frame_changes() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo", WIDE)
    say(fabric, C, ask(width=NARROW))
    assert hear(fabric, W) == [ask(client=C, width=WIDE)]
    say(fabric, W, DcpReply(C, (b"m", b"", b"a"), WIDE))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"a"), NARROW)]


def test_a_peer_is_written_to_in_the_width_it_spoke_last() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo", NARROW)
    say(fabric, W, Ping(WIDE))
    assert hear(fabric, W) == [Pong(WIDE)]
    say(fabric, C, ask())
    assert hear(fabric, W) == [ask(client=C, width=WIDE)]


def test_the_width_of_a_peer_not_heard_for_long_is_forgotten() -> None:
    fabric = make_fabric(remembered_peers=2)
    say(fabric, C, ask())
    for address in (C2, W2):
        say(fabric, address, Ping(NARROW))
        assert hear(fabric, address) == [Reconnect(NARROW)]
    say(fabric, W, Registration(b"echo"))
    say(fabric, W, DcpReply(C, (b"m", b"", b"a"), NARROW))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"a"), WIDE)]


def test_a_ping_gets_a_pong_or_from_an_unknown_peer_a_reconnect() -> None:
    fabric = make_fabric()
    say(fabric, W, Ping(WIDE))
    assert hear(fabric, W) == [Reconnect(WIDE)]
    register(fabric, W, b"echo", WIDE)
    say(fabric, W, Ping(WIDE))
    assert hear(fabric, W) == [Pong(WIDE)]


def test_requests_wait_for_a_worker_and_reach_it_in_order() -> None:
    fabric = make_fabric()
    say(fabric, C, ask(b"1"))
    register(fabric, W, b"other")
    say(fabric, C2, ask(b"2"))
    say(fabric, W2, Registration(b"echo"))
    assert hear(fabric, W2) == [Registration(b"echo"), ask(b"1", client=C)]
    say(fabric, W2, DcpReply(C, (b"1", b"", b"one")))
    assert hear(fabric, W2) == [ask(b"2", client=C2)]
    say(fabric, W2, DcpReply(C2, (b"2", b"", b"two")))
    assert hear(fabric, C) == [DcpReply(C, (b"1", b"", b"one"))]
    assert hear(fabric, C2) == [DcpReply(C2, (b"2", b"", b"two"))]


def test_many_requests_of_one_client_are_in_flight_and_told_apart_by_metadata() -> None:
    fabric = make_fabric()
    for address in (W, W2):
        register(fabric, address, b"echo")
    say(fabric, C, ask(b"1"), ask(b"2"), ask(b"3"))
    assert hear(fabric, W) == [ask(b"1", client=C)]
    assert hear(fabric, W2) == [ask(b"2", client=C)]
    say(fabric, W2, DcpReply(C, (b"2", b"", b"two")))
    assert hear(fabric, W2) == [ask(b"3", client=C)]
    say(fabric, W, DcpReply(C, (b"1", b"", b"one")))
    assert hear(fabric, C) == [DcpReply(C, (b"2", b"", b"two")), DcpReply(C, (b"1", b"", b"one"))]


def test_a_ping_of_a_busy_worker_asks_for_one_more_request() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, C, *(ask(n) for n in (b"1", b"2", b"3")))
    assert hear(fabric, W) == [ask(b"1", client=C)]
    say(fabric, W, Ping())
    assert hear(fabric, W) == [Pong(), ask(b"2", client=C)]
    # The order differs; metadata identifies each request.
    say(fabric, W, DcpReply(C, (b"2", b"", b"two")))
    assert hear(fabric, W) == [ask(b"3", client=C)]
    say(fabric, W, DcpReply(C, (b"1", b"", b"one")), DcpReply(C, (b"3", b"", b"three")))
    assert [m.tail[0] for m in hear(fabric, C) if isinstance(m, DcpReply)] == [b"2", b"1", b"3"]


def test_pings_of_a_busy_worker_can_be_heartbeats_only() -> None:
    fabric = make_fabric(ping_asks_for_work=False)
    register(fabric, W, b"echo")
    say(fabric, C, ask(b"1"), ask(b"2"))
    hear(fabric, W)
    say(fabric, W, Ping())
    assert hear(fabric, W) == [Pong()]


def test_pings_of_a_free_worker_do_not_add_up_to_more_than_one_request() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, W, Ping(), Ping(), Ping())
    say(fabric, C, ask(b"1"), ask(b"2"))
    assert hear(fabric, W) == [Pong(), Pong(), Pong(), ask(b"1", client=C)]


def test_of_requests_that_look_the_same_the_oldest_is_answered_first() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, C, ask(b"same", b"first"), ask(b"same", b"second"))
    say(fabric, W, Ping(), DcpReply(C, (b"same", b"", b"1")), DcpReply(C, (b"same", b"", b"2")))
    assert hear(fabric, C) == [DcpReply(C, (b"same", b"", b"1")), DcpReply(C, (b"same", b"", b"2"))]
    ended = [r.job for r in fabric.records if r.kind == "ended"]
    assert ended == ["job-1", "job-2"]


def test_a_reply_without_metadata_is_matched_if_the_worker_holds_one_request() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, C, ask(b"m"))
    say(fabric, W, DcpReply(C, (b"", b"a")))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"a"))]


def test_a_job_is_forwarded_between_services_and_its_client_gets_the_reply() -> None:
    fabric = make_fabric()
    register(fabric, W, b"front")
    register(fabric, W2, b"back", WIDE)
    say(fabric, C, ask(b"meta", b"raw", b"front"))
    assert hear(fabric, W) == [ask(b"meta", b"raw", b"front", client=C)]
    say(fabric, W, ask(b"meta", b"partly done", b"back", client=C))
    assert hear(fabric, W2) == [ask(b"meta", b"partly done", b"back", client=C, width=WIDE)]
    say(fabric, W2, DcpReply(C, (b"meta", b"", b"done"), WIDE))
    assert hear(fabric, C) == [DcpReply(C, (b"meta", b"", b"done"))]
    assert fabric.kinds("job-1") == ["submitted", "dispatched", "forwarded", "dispatched", "ended"]
    # Forwarding counts as a response: the first worker is free again.
    say(fabric, C, ask(b"next", b"raw", b"front"))
    assert hear(fabric, W) == [ask(b"next", b"raw", b"front", client=C)]


def test_a_job_that_is_passed_on_with_other_metadata_keeps_its_client() -> None:
    fabric = make_fabric()
    register(fabric, W, b"front")
    register(fabric, W2, b"back")
    say(fabric, C, ask(b"meta", b"raw", b"front"))
    say(fabric, W, ask(b"other", b"partly done", b"back", client=C))
    assert hear(fabric, W2) == [ask(b"other", b"partly done", b"back", client=C)]
    say(fabric, W2, DcpReply(C, (b"other", b"", b"done")))
    assert hear(fabric, C) == [DcpReply(C, (b"other", b"", b"done"))]
    assert fabric.kinds("job-1") == ["submitted", "dispatched", "forwarded", "dispatched", "ended"]


def test_a_worker_that_sends_a_request_to_its_own_service_returns_it() -> None:
    fabric = make_fabric()
    for address in (W, W2):
        register(fabric, address, b"echo")
    say(fabric, C, ask())
    say(fabric, W, ask(client=C))
    assert hear(fabric, W2) == [ask(client=C)]
    assert fabric.kinds("job-1") == ["submitted", "dispatched", "requeued", "dispatched"]


def test_a_worker_may_ask_for_work_of_its_own() -> None:
    fabric = make_fabric()
    register(fabric, W, b"front")
    register(fabric, W2, b"back")
    say(fabric, W, ask(b"mine", service=b"back"))
    assert hear(fabric, W2) == [ask(b"mine", service=b"back", client=W)]
    say(fabric, W2, DcpReply(W, (b"mine", b"", b"yours")))
    assert hear(fabric, W) == [DcpReply(W, (b"mine", b"", b"yours"))]


def test_a_client_that_may_not_name_another_gets_the_reply_itself_and_it_is_recorded() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, C, ask(client=C2))
    assert hear(fabric, W) == [ask(client=C)]
    assert [r.detail for r in fabric.records if r.kind == "rejected"] == [
        "named the client C2; replaced by its own address"
    ]


def test_a_client_may_name_another_which_gets_the_reply() -> None:
    fabric = make_fabric(takes_named_clients=True)
    register(fabric, W, b"echo")
    say(fabric, C, ask(client=C2))
    say(fabric, W, DcpReply(C2, (b"m", b"", b"a")))
    assert hear(fabric, C) == []
    assert hear(fabric, C2) == [DcpReply(C2, (b"m", b"", b"a"), WIDE)]


def test_a_reply_that_matches_no_request_is_only_recorded() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, W, DcpReply(C, (b"m", b"", b"a")))
    say(fabric, W2, DcpReply(C, (b"m", b"", b"a")))
    assert hear(fabric, C) == []
    assert fabric.kinds() == ["joined", "rejected", "rejected"]


def test_worker_messages_of_an_unknown_peer_are_only_recorded() -> None:
    fabric = make_fabric()
    say(fabric, W, Pong(), Reconnect())
    assert fabric.kinds() == ["rejected", "rejected"]
    say(fabric, W, Ping())
    assert hear(fabric, W) == [Reconnect()]


def test_a_second_registration_replaces_the_first() -> None:
    fabric = make_fabric()
    register(fabric, W, b"old")
    register(fabric, W, b"new")
    say(fabric, C, ask(service=b"old"), ask(service=b"new"))
    assert hear(fabric, W) == [ask(service=b"new", client=C)]


def test_a_registration_of_a_busy_worker_keeps_its_assignment() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    say(fabric, C, ask(b"1"), ask(b"2"))
    hear(fabric, W)
    say(fabric, W, Registration(b"echo"))
    # It counts as a response, so the worker gets a second request.
    assert hear(fabric, W) == [Registration(b"echo"), ask(b"2", client=C)]
    say(fabric, W, DcpReply(C, (b"1", b"", b"one")), DcpReply(C, (b"2", b"", b"two")))
    assert len(hear(fabric, C)) == 2


def test_service_names_are_any_bytes() -> None:
    fabric = make_fabric()
    for name in (b"", b"all", b"\x00\xff", b"datastore writer", "größe".encode(), b"0x41"):
        register(fabric, W, name)
        say(fabric, C, ask(service=name))
        assert hear(fabric, W) == [ask(service=name, client=C)]
        say(fabric, W, DcpReply(C, (b"m", b"", name)))
        assert hear(fabric, C) == [DcpReply(C, (b"m", b"", name))]
    names = {service_name(n) for n in (b"", b"all", b"0x", b"\x00")}
    assert len(names) == 4
    assert "all" not in names


def test_an_idle_worker_that_falls_silent_is_asked_to_register_again() -> None:
    fabric = make_fabric(beat_every=1.0, missed_allowed=3)
    register(fabric, W, b"echo", WIDE)
    fabric.wait(2.9)
    assert hear(fabric, W) == []
    fabric.wait(0.2)
    assert hear(fabric, W) == [Reconnect(WIDE)]
    say(fabric, W, Ping(WIDE))
    assert hear(fabric, W) == [Reconnect(WIDE)]


def test_a_silent_busy_worker_keeps_its_job_and_is_checked() -> None:
    fabric = make_fabric(beat_every=1.0, missed_allowed=3, missed_allowed_busy=100)
    register(fabric, W, b"echo")
    say(fabric, C, ask())
    hear(fabric, W)
    fabric.wait(2.9)
    assert hear(fabric, W) == []
    fabric.wait(50)
    # The broker sends pongs to check the connection.
    assert set(hear(fabric, W)) == {Pong()}
    say(fabric, W, DcpReply(C, (b"m", b"", b"a")))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"a"))]
    assert fabric.kinds("job-1") == ["submitted", "dispatched", "ended"]


def test_the_job_of_a_lost_worker_goes_to_another_and_its_late_reply_is_recorded() -> None:
    fabric = make_fabric(beat_every=1.0, missed_allowed=3, missed_allowed_busy=5)
    register(fabric, W, b"echo")
    say(fabric, C, ask())
    hear(fabric, W)
    fabric.wait(5.1)
    assert hear(fabric, W)[-1] == Reconnect()
    say(fabric, W2, Registration(b"echo"))
    assert hear(fabric, W2) == [Registration(b"echo"), ask(client=C)]
    say(fabric, W, DcpReply(C, (b"m", b"", b"late")))
    assert hear(fabric, C) == []
    assert hear(fabric, W) == [Reconnect()]
    say(fabric, W2, DcpReply(C, (b"m", b"", b"good")))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"good"))]
    assert "late" in fabric.kinds("job-1")


def test_a_request_without_a_worker_ends_in_an_empty_reply() -> None:
    fabric = make_fabric(terms=Terms(patience=5.0, strict=False))
    say(fabric, C, ask(b"m1", service=b"ghost"))
    fabric.wait(5.1)
    assert hear(fabric, C) == [DcpReply(C, (b"m1", b""))]
    assert fabric.records[-1].fault == "no_worker"


def test_a_request_without_a_worker_ends_in_silence_if_the_settings_say_so() -> None:
    fabric = make_fabric(terms=Terms(patience=5.0, strict=False), faults="silent")
    say(fabric, C, ask(service=b"ghost"))
    fabric.wait(5.1)
    assert hear(fabric, C) == []
    assert fabric.records[-1].fault == "no_worker"


def test_terms_may_differ_per_service() -> None:
    fabric = make_fabric(services={"now": Terms(patience=0.0, strict=False)})
    say(fabric, C, ask(b"1", service=b"now"), ask(b"2", service=b"later"))
    assert hear(fabric, C) == [DcpReply(C, (b"1", b""))]


def test_a_worker_that_could_not_be_reached_is_free_again_with_its_next_ping() -> None:
    fabric = make_fabric()
    register(fabric, W, b"echo")
    fabric.gone.add(("dcp", W))
    say(fabric, C, ask())
    assert hear(fabric, W) == []
    fabric.gone.clear()
    say(fabric, W, Ping())
    fabric.wait(1.5)
    assert ask(client=C) in hear(fabric, W)
    say(fabric, W, DcpReply(C, (b"m", b"", b"a")))
    assert hear(fabric, C) == [DcpReply(C, (b"m", b"", b"a"))]


def test_a_restarted_broker_gets_its_workers_back_by_their_next_ping() -> None:
    fabric = make_fabric()
    say(fabric, W, Ping(WIDE))
    assert hear(fabric, W) == [Reconnect(WIDE)]
    register(fabric, W, b"lock", WIDE)
    say(fabric, C, ask(service=b"lock"))
    assert hear(fabric, W) == [ask(service=b"lock", client=C, width=WIDE)]


def test_all_malformed_vectors_leave_the_broker_working() -> None:
    fabric = make_fabric()
    vectors = json.loads((Path(__file__).parents[1] / "vectors/dcp/vectors.json").read_text())
    for vector in vectors:
        fabric.say("dcp", b"X", tuple(bytes.fromhex(f) for f in vector["frames_hex"]))
    assert len(fabric.malformed) == 14  # 13, and the ROUTER's view with its extra frame
    register(fabric, W, b"fresh")
    say(fabric, C, ask(b"alive", service=b"fresh"))
    assert hear(fabric, W) == [ask(b"alive", client=C, service=b"fresh")]


def test_a_question_about_no_job_is_malformed() -> None:
    fabric = make_fabric()
    for note in (b'dragoman:{"ask":"result"}', b'dragoman:{"ask":"fly","job":"j"}'):
        say(fabric, C, DcpRequest(b"", b"", (note, b"")))
    say(fabric, C, DcpRequest(b"s", b"", (b'dragoman:{"job":"j","target":","}', b"")))
    assert len(fabric.malformed) == 3


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
    fabric = make_fabric()
    register(fabric, W, b"echo")
    for address, frames in said:
        fabric.say("dcp", address, frames)
    fabric.wait(700)
    say(fabric, b"W9", Registration(b"fresh"))
    say(fabric, b"C9", ask(service=b"fresh"))
    assert ask(service=b"fresh", client=b"C9") in hear(fabric, b"W9")


@given(st.lists(pieces, max_size=8))
def test_whatever_a_broker_says_our_peers_go_on(frames: list[bytes]) -> None:
    client, worker = DcpClientSide(), DcpWorkerSide("echo")
    worker.receive(encode(DcpRequest(b"echo", C, (b"m", b"", b"d"))))
    for head in ([], [b"", b"DGBX\x01"]):
        client.receive([*head, *frames])
        worker.receive([*head, *frames])
    with pytest.raises(MalformedMessage):
        decode([b"x"])
