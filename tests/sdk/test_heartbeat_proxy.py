"""The heartbeat proxy: frames through a pipe, and heartbeats without the worker."""

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


def test_it_passes_frames_both_ways_and_sends_heartbeats_until_the_worker_goes() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    broker.setsockopt(zmq.RCVTIMEO, 10_000)
    port = broker.bind_to_random_port("tcp://127.0.0.1")
    worker_in, proxy_out = os.pipe()
    proxy_in, worker_out = os.pipe()
    with os.fdopen(proxy_out, "wb") as out:
        proxy = HeartbeatProxy(f"tcp://127.0.0.1:{port}", b"w", proxy_in, out.fileno())
        running = threading.Thread(target=proxy.run, daemon=True)
        running.start()
        os.write(worker_out, pack(KEYS, []))
        os.write(worker_out, pack(MESSAGE, [b"hello"]))
        assert broker.recv_multipart() == [b"w", b"hello"]
        broker.send_multipart([b"w", b"work"])
        unpacker, received = Unpacker(), list[tuple[bytes, list[bytes]]]()
        while len(received) < 2:
            received += unpacker.feed(os.read(worker_in, 1000))
        assert received == [(CONNECTING, []), (MESSAGE, [b"work"])]
        os.write(worker_out, pack_beat(0.05, 100.0, [[b"beat"]]))
        os.write(worker_out, pack(PULSE, []))
        assert [broker.recv_multipart() for _ in range(3)] == [[b"w", b"beat"]] * 3
        os.close(worker_out)
        running.join(10)
        assert not running.is_alive()
    os.close(worker_in)
    os.close(proxy_in)
    broker.close()
    context.term()


def test_it_stops_its_heartbeats_for_a_worker_without_a_pulse() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    port = broker.bind_to_random_port("tcp://127.0.0.1")
    proxy_in, worker_out = os.pipe()
    with open(os.devnull, "wb") as devnull:
        proxy = HeartbeatProxy(f"tcp://127.0.0.1:{port}", b"w", proxy_in, devnull.fileno())
        running = threading.Thread(target=proxy.run, daemon=True)
        running.start()
        os.write(worker_out, pack(KEYS, []))
        os.write(worker_out, pack_beat(0.05, 0.2, [[b"beat"]]))
        assert broker.poll(10_000)
        beats = 0
        while broker.poll(1000):
            broker.recv_multipart()
            beats += 1
            assert beats < 50, "it sends heartbeats for a worker that is gone"
        os.close(worker_out)
        running.join(10)
    os.close(proxy_in)
    broker.close()
    context.term()
