"""The courier: frames through a pipe, and a beat that needs nobody."""

import os
import threading

import zmq
from hypothesis import given
from hypothesis import strategies as st

from dragoman.sdk.heartbeat_proxy import (
    CONNECTING,
    KEYS,
    MESSAGE,
    PULSE,
    HeartbeatProxy,
    Unpacker,
    pack,
    pack_beat,
)

FRAMES = st.lists(st.binary(max_size=40), max_size=4)


@given(st.lists(FRAMES, max_size=5), st.integers(1, 7))
def test_messages_survive_the_pipe_however_it_cuts_them(
    messages: list[list[bytes]], size: int
) -> None:
    data = b"".join(pack(MESSAGE, frames) for frames in messages)
    unpacker, found = Unpacker(), []
    for at in range(0, len(data), size):
        found += unpacker.feed(data[at : at + size])
    assert found == [(MESSAGE, frames) for frames in messages]


def test_it_passes_frames_both_ways_and_beats_by_itself_until_the_worker_goes() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    broker.setsockopt(zmq.RCVTIMEO, 10_000)
    port = broker.bind_to_random_port("tcp://127.0.0.1")
    worker_in, courier_out = os.pipe()
    courier_in, worker_out = os.pipe()
    with os.fdopen(courier_out, "wb") as out:
        courier = HeartbeatProxy(f"tcp://127.0.0.1:{port}", b"w", courier_in, out.fileno())
        running = threading.Thread(target=courier.run, daemon=True)
        running.start()
        os.write(worker_out, pack(KEYS, []))
        os.write(worker_out, pack(MESSAGE, [b"hello"]))
        assert broker.recv_multipart() == [b"w", b"hello"]
        broker.send_multipart([b"w", b"work"])
        unpacker, told = Unpacker(), list[tuple[bytes, list[bytes]]]()
        while len(told) < 2:
            told += unpacker.feed(os.read(worker_in, 1000))
        assert told == [(CONNECTING, []), (MESSAGE, [b"work"])]
        os.write(worker_out, pack_beat(0.05, 100.0, [[b"beat"]]))
        os.write(worker_out, pack(PULSE, []))
        assert [broker.recv_multipart() for _ in range(3)] == [[b"w", b"beat"]] * 3
        os.close(worker_out)
        running.join(10)
        assert not running.is_alive()
    os.close(worker_in)
    os.close(courier_in)
    broker.close()
    context.term()


def test_it_stops_beating_for_a_worker_that_shows_no_life() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    port = broker.bind_to_random_port("tcp://127.0.0.1")
    courier_in, worker_out = os.pipe()
    with open(os.devnull, "wb") as nowhere:
        courier = HeartbeatProxy(f"tcp://127.0.0.1:{port}", b"w", courier_in, nowhere.fileno())
        running = threading.Thread(target=courier.run, daemon=True)
        running.start()
        os.write(worker_out, pack(KEYS, []))
        os.write(worker_out, pack_beat(0.05, 0.2, [[b"beat"]]))
        assert broker.poll(10_000)
        beats = 0
        while broker.poll(1000):
            broker.recv_multipart()
            beats += 1
            assert beats < 50, "it beats for a worker that is gone"
        os.close(worker_out)
        running.join(10)
    os.close(courier_in)
    broker.close()
    context.term()
