"""A DEALER in a process of its own, seen from the worker."""

import asyncio

import zmq

from dragoman.sdk.couriered import CourieredDealer


def test_frames_pass_and_beats_go_on_without_the_worker() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    broker.setsockopt(zmq.RCVTIMEO, 20_000)
    port = broker.bind_to_random_port("tcp://127.0.0.1")

    async def scene() -> None:
        arrived = asyncio.Event()
        dealer = CourieredDealer(f"tcp://127.0.0.1:{port}", b"w")
        await dealer.open(arrived.set)
        dealer.send(b"", [b"join", b"x" * 300_000])
        assert (await asyncio.to_thread(broker.recv_multipart))[:2] == [b"w", b"join"]
        broker.send_multipart([b"w", b"work"])
        async with asyncio.timeout(20):
            await arrived.wait()
        assert list(dealer.drain(10)) == [(b"", [b"work"])]
        dealer.keep_beating(0.05, [[b"beat"]])
        # The loop of this process is blocked while the beats are counted.
        for _ in range(3):
            assert broker.recv_multipart() == [b"w", b"beat"]
        dealer.send(b"", [b"bye"])
        await dealer.close()
        while broker.recv_multipart() != [b"w", b"bye"]:
            pass

    asyncio.run(scene())
    broker.close()
    context.term()
