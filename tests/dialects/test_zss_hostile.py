"""Whatever is said to a ZSS broker or a peer of ours: it goes on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.zss_messages import (
    BACK,
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
    serve,
    smi,
    up,
)

from dragoman.dialects.zss.client_side import ZssClientSide
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
from dragoman.dialects.zss.worker_side import ZssWorkerSide

# --- malformed -------------------------------------------------------------------------------


def test_a_client_sends_seven_frames() -> None:
    broker = fabric()
    call(broker, C, ask(identity=C))
    assert len(broker.malformed) == 1


def test_a_part_of_no_request_is_malformed_and_a_bad_target_too() -> None:
    broker = fabric()
    call(broker, C, replace(ask(b"7"), kind=PRT))
    call(broker, C, ask(address=write_address("PONG", "PING", target=",")))
    call(broker, C, ask(address=write_address("PONG", "PING", target=5)))
    assert len(broker.malformed) == 2
    assert [m.status for m in heard(broker, FRONT, C)] == [b"404"]


def test_every_vector_of_a_peer_leaves_the_broker_working() -> None:
    broker = fabric()
    links = {"client->broker": FRONT, "service->broker": BACK}
    for vector in VECTORS:
        if vector["direction"] in links and "[" not in vector["label"]:
            frames = [bytes.fromhex(frame) for frame in vector["frames_hex"]]
            broker.say(links[vector["direction"]], b"peer#1", frames)
    assert broker.malformed
    up(broker, b"FRESH#1", "FRESH")
    call(broker, C, ask(b"alive", address=write_address("FRESH", "PING")))
    assert len(heard(broker, BACK, b"FRESH#1")) == 1


@pytest.mark.parametrize("number", [6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 62, 66, 90, 94, 98, 110])
def test_a_captured_call_passes_as_through_upstreams_broker(number: int) -> None:
    """Replay request and reply of real peers; but for instants, the same frames come out."""
    broker = fabric()
    vectors = [[bytes.fromhex(f) for f in v["frames_hex"]] for v in VECTORS[number : number + 4]]
    asked, routed, answered, returned = map(decode, vectors)
    up(broker, S, read_address(asked.address).sid)
    client = routed.identity
    assert client is not None
    call(broker, client, asked)
    (request,) = heard(broker, BACK, S)
    sid = read_address(asked.address).sid.upper()
    assert request == replace(routed, headers=asked.headers, address=request.address)
    assert read_address(request.address).sid == sid
    serve(broker, S, answered)
    (reply_,) = heard(broker, FRONT, client)
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
    broker = fabric(traces=True)
    up(broker)
    for (link, address), frames in said:
        broker.say(link, address, frames)
    broker.wait(700)
    serve(broker, b"FRESH#1", smi("HEARTBEAT", "FRESH"))
    call(broker, b"client#9", ask(b"alive", address=write_address("FRESH", "PING")))
    assert [m.kind for m in heard(broker, BACK, b"FRESH#1")] == [REP, REQ]


@given(st.lists(pieces, max_size=9) | headed)
def test_whatever_a_broker_says_our_peers_go_on(frames: list[bytes]) -> None:
    client, worker = ZssClientSide(), ZssWorkerSide(["math"])
    worker.receive(encode(ask(identity=C)))
    for each in (frames, [C, *frames]):
        assert isinstance(client.receive(each), list)
        assert isinstance(worker.receive(each), list)
