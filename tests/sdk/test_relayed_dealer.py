"""A DEALER whose socket is in a relay process, seen from the worker."""

import asyncio
import os
import signal

import pytest
import zmq

from dragoman.sdk.relayed_dealer import RelayedDealer
from dragoman.transports.zmtp import Router


@pytest.mark.process
def test_frames_pass_and_heartbeats_continue_without_the_worker() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    broker.setsockopt(zmq.RCVTIMEO, 20_000)
    port = broker.bind_to_random_port("tcp://127.0.0.1")

    async def scene() -> None:
        arrived = asyncio.Event()
        dealer = RelayedDealer(f"tcp://127.0.0.1:{port}", b"w")
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


@pytest.mark.process
def test_a_renewed_relay_is_the_same_process_with_a_new_socket() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    broker.setsockopt(zmq.ROUTER_HANDOVER, 1)
    broker.setsockopt(zmq.RCVTIMEO, 20_000)
    port = broker.bind_to_random_port("tcp://127.0.0.1")

    async def scene() -> None:
        arrived = asyncio.Event()
        dealer = RelayedDealer(f"tcp://127.0.0.1:{port}", b"w")
        await dealer.open(arrived.set)
        dealer.keep_beating(0.05, [[b"old"]])
        assert await asyncio.to_thread(broker.recv_multipart) == [b"w", b"old"]
        pid = dealer.pid
        assert await dealer.renew()
        assert dealer.pid == pid
        dealer.send(b"", [b"join"])
        while await asyncio.to_thread(broker.recv_multipart) != [b"w", b"join"]:
            pass
        arrived.clear()
        # The broker knows the name by its new connection, and nothing but the join came on it.
        broker.send_multipart([b"w", b"work"])
        async with asyncio.timeout(20):
            await arrived.wait()
        assert list(dealer.drain(10)) == [(b"", [b"work"])]
        dealer.send(b"", [b"bye"])
        dealer.flush()
        assert await asyncio.to_thread(broker.recv_multipart) == [b"w", b"bye"]
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not await dealer.renew()
        await dealer.close()

    asyncio.run(scene())
    broker.close()
    context.term()


@pytest.mark.process
def test_a_broker_that_wants_keys_is_a_refusal() -> None:
    server = zmq.curve_keypair()

    async def scene() -> None:
        router = Router("tcp://127.0.0.1:0", secrets=[server[1]])
        endpoint = await router.open(lambda: None)
        dealer, woken = RelayedDealer(endpoint, b"w"), asyncio.Event()
        await dealer.open(woken.set)
        async with asyncio.timeout(20):
            await woken.wait()
        assert "wants CURVE" in dealer.refusal
        await dealer.close()
        await router.close()

    asyncio.run(scene())


@pytest.mark.process
def test_a_lost_connection_is_restored_and_heartbeats_go_on() -> None:
    async def scene() -> None:
        arrived = asyncio.Event()
        router = Router("tcp://127.0.0.1:0")
        endpoint = await router.open(arrived.set)
        dealer = RelayedDealer(endpoint, b"w")
        await dealer.open(lambda: None)
        dealer.keep_beating(0.02, [[b"beat"]])
        dealer.send(b"", [b"join"])
        assert await _next(router, arrived) == [b"join"]
        await router.close()
        router = Router(endpoint)
        await router.open(arrived.set)
        assert await _next(router, arrived) == [b"beat"]
        dealer.send(b"", [b"here"])
        dealer.flush()
        while await _next(router, arrived) != [b"here"]:
            pass
        await dealer.close()
        await router.close()

    asyncio.run(scene())


async def _next(router: Router, arrived: asyncio.Event) -> list[bytes]:
    async with asyncio.timeout(20):
        while True:
            for _, frames in router.drain(1):
                return frames
            arrived.clear()
            await arrived.wait()
