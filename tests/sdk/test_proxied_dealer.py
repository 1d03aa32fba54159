"""A DEALER in a process of its own, seen from the worker."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
import zmq

from dragoman.sdk.proxied_dealer import ProxiedDealer
from dragoman.transports.zmq import CurveKeys
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
        dealer = ProxiedDealer(f"tcp://127.0.0.1:{port}", b"w")
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
def test_a_renewed_proxy_is_the_same_process_with_a_new_socket() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = context.socket(zmq.ROUTER)
    broker.setsockopt(zmq.LINGER, 0)
    broker.setsockopt(zmq.ROUTER_HANDOVER, 1)
    broker.setsockopt(zmq.RCVTIMEO, 20_000)
    port = broker.bind_to_random_port("tcp://127.0.0.1")

    async def scene() -> None:
        arrived = asyncio.Event()
        dealer = ProxiedDealer(f"tcp://127.0.0.1:{port}", b"w")
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
        assert await asyncio.to_thread(broker.recv_multipart) == [b"w", b"bye"]
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert not await dealer.renew()
        await dealer.close()

    asyncio.run(scene())
    broker.close()
    context.term()


def _seen_by_others(pid: int) -> bytes:
    folder = Path(f"/proc/{pid}")
    return (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()


@pytest.mark.process
def test_a_proxy_uses_the_workers_key_and_reports_a_refusal() -> None:
    server, own = zmq.curve_keypair(), zmq.curve_keypair()
    admitted: set[str] = set()

    async def scene() -> None:
        arrived = asyncio.Event()
        router = Router("tcp://127.0.0.1:0", secrets=[server[1]], admits=admitted.__contains__)
        endpoint = await router.open(arrived.set)
        dealer = ProxiedDealer(endpoint, b"w", CurveKeys(*own, server[0]))
        woken = asyncio.Event()
        await dealer.open(woken.set)
        async with asyncio.timeout(20):
            await woken.wait()
        assert "refuses this key" in dealer.refusal
        await dealer.close()

        admitted.add(f"curve:{own[0].decode()}")
        dealer = ProxiedDealer(endpoint, b"w", CurveKeys(*own, server[0]))
        await dealer.open(woken.set)
        dealer.send(b"", [b"join"])
        heard: list[bytes] = []
        async with asyncio.timeout(20):
            while not heard:
                await arrived.wait()
                arrived.clear()
                heard += [name for name, _ in router.drain(10)]
        assert router.key_of(b"w") == f"curve:{own[0].decode()}"
        assert own[1] not in _seen_by_others(dealer.pid)
        await dealer.close()
        await router.close()

    asyncio.run(scene())


@pytest.mark.process
def test_a_proxy_moves_to_the_next_address_when_its_connection_is_lost() -> None:
    own, server = zmq.curve_keypair(), zmq.curve_keypair()

    async def scene() -> None:
        arrived = asyncio.Event()
        routers = [Router("tcp://127.0.0.1:0", secrets=[server[1]]) for _ in range(2)]
        places = [(await each.open(arrived.set)).removeprefix("tcp://") for each in routers]
        dealer = ProxiedDealer(f"tcp://{places[0]},{places[1]}", b"w", CurveKeys(*own, server[0]))
        await dealer.open(lambda: None)
        dealer.keep_beating(0.05, [[b"beat"]])
        for router in routers:
            async with asyncio.timeout(20):
                while not list(router.drain(1)):
                    arrived.clear()
                    await arrived.wait()
            await router.close()
        assert dealer.refusal == ""
        await dealer.close()

    asyncio.run(scene())
