"""Processes for `bench_nfp`: raw peers that make load, NorFab's own broker, and two bare loops.

    python -m benches.nfp_peers load CLIENTS-ENDPOINT WORKERS-ENDPOINT MODE SECONDS
    python -m benches.nfp_peers norfab FOLDER
    python -m benches.nfp_peers bare [SECRET-KEY]
    python -m benches.nfp_peers transport [SECRET-KEY]

Clients and worker share one thread, so that on two cores the broker has one for itself. Frames are
built once and patched, so that the load costs little.
"""

import asyncio
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

import zmq

BODY: Final = b'{"task":"noop","kwargs":{},"args":[],"timeout":60}'
RESULT: Final = (
    b'{"w":{"result":1,"failed":false,"errors":[],"task":"w:noop","status":"completed"}}'
)
#: A CURVE pair and the broker's public key, where the broker has one.
KEYS: Final = os.environ.get("BENCH_KEYS", "")
#: The one worker of a bare loop.
WORKER: Final = b"w0"
#: Mode: clients, requests of each in flight, workers.
MODES: Final = {
    "sequential": (1, 1, 1),
    "pipelined": (1, 100, 1),
    "accepts": (200, 1, 1),
    "200 workers": (1, 100, 200),
    "2,000 workers": (1, 100, 2000),
}


Take: TypeAlias = Callable[["zmq.Socket[bytes]", list[bytes]], None]


class Load:
    """Clients that always have the same number of requests open, and their workers."""

    def __init__(self, clients: str, workers: str, mode: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        count, self.window, hands = MODES[mode]
        self.context.set(zmq.MAX_SOCKETS, count + hands)
        self.accepts = mode == "accepts"
        self.service = b"nobody" if self.accepts else b"bench"
        self.workers = [self._dealer(workers, b"w%d" % i) for i in range(hands)]
        self.clients = [self._dealer(clients, b"c%d" % i) for i in range(count)]
        # `zmq_poll` checks each of thousands of sockets; epoll reports only those with input.
        takes: list[tuple[zmq.Socket[bytes], Take]]
        takes = [*((each, self._work) for each in self.workers)]
        takes += ((each, self._answer) for each in self.clients)
        self.takes = {socket.fileno(): (socket, take) for socket, take in takes}
        self.poller = select.epoll()
        for descriptor in self.takes:
            self.poller.register(descriptor, select.EPOLLIN | select.EPOLLET)
        self.number = 0
        self.is_over = False
        self.unheard = set(() if self.accepts else self.workers)
        self.run = os.urandom(4).hex().encode()
        self.begun: dict[bytes, float] = {}
        self.took: list[float] = []

    def _dealer(self, endpoint: str, identity: bytes) -> "zmq.Socket[bytes]":
        socket = self.context.socket(zmq.DEALER)
        socket.setsockopt(zmq.IDENTITY, identity)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        if KEYS:
            public, secret, server = KEYS.split()
            socket.setsockopt(zmq.CURVE_PUBLICKEY, public.encode())
            socket.setsockopt(zmq.CURVE_SECRETKEY, secret.encode())
            socket.setsockopt(zmq.CURVE_SERVERKEY, server.encode())
        socket.connect(endpoint)
        return socket

    def start(self) -> None:
        for worker in self.workers:
            worker.send_multipart([b"", b"NFPW01", b"0x01", b"bench"])
        if self.accepts:
            # So that a queued job is acknowledged too.
            for client in self.clients:
                client.send_multipart([b"", b"NFPC01", b"0x00", b'{"push":true}'])
        time.sleep(0.5)
        for client in self.clients:
            for _ in range(self.window):
                self._post(client)
        for socket, take in self.takes.values():
            self._drain(socket, take)

    def _post(self, client: "zmq.Socket[bytes]") -> None:
        self.number += 1
        uuid = b"%s%024d" % (self.run, self.number)
        self.begun[uuid] = time.perf_counter()
        client.send_multipart([b"", b"NFPC01", b"0x04", self.service, b"any", uuid, BODY])

    def turn(self) -> None:
        for descriptor, _ in self.poller.poll(1.0):
            self._drain(*self.takes[descriptor])

    def _drain(self, socket: "zmq.Socket[bytes]", take: Take) -> None:
        """Drain the socket: its descriptor is edge-triggered, and sending may consume the edge."""
        with suppress(zmq.Again):
            while True:
                take(socket, socket.recv_multipart(zmq.NOBLOCK))

    def _work(self, socket: "zmq.Socket[bytes]", frames: list[bytes]) -> None:
        self.unheard.discard(socket)
        if frames[2] == b"0x04":
            client, uuid = frames[3], frames[5]
            socket.send_multipart([b"", b"NFPW01", b"0x05", client, b"", uuid, b"200", RESULT])
        elif frames[2] == b"0x02":
            socket.send_multipart([b"", b"NFPW01", b"0x02", b"bench"])

    def _answer(self, client: "zmq.Socket[bytes]", frames: list[bytes]) -> None:
        if len(frames) < 7 or frames[5] != (b"202" if self.accepts else b"200"):
            return
        begun = self.begun.pop(frames[4], None)
        if begun is not None:
            self.took.append(time.perf_counter() - begun)
            if not self.is_over:
                self._post(client)

    def measure(self, seconds: float) -> dict[str, float]:
        self.start()
        patience = time.monotonic() + 60.0
        while (
            self.unheard
        ):  # the broker has registered a worker once it sent it a request or a beat
            assert time.monotonic() < patience, f"{len(self.unheard)} workers were not heard of"
            self.turn()
        self._until(time.monotonic() + min(1.0, seconds / 3))
        print("measuring", flush=True)
        sys.stdin.readline()
        self.took.clear()
        begun = time.monotonic()
        self._until(begun + seconds)
        took, span = sorted(self.took), time.monotonic() - begun
        self.leave()
        if not took:  # a broker may be too slow for its fleet
            return dict.fromkeys(("rate", "requests", "p50", "p99"), 0.0)
        return {
            "rate": len(took) / span,
            "requests": len(took),
            "p50": took[len(took) // 2] * 1e3,
            "p99": took[len(took) * 99 // 100] * 1e3,
        }

    def leave(self) -> None:
        """Stop requesting, wait for open requests, then disconnect."""
        self.is_over = True
        deadline = time.monotonic() + 5.0
        while self.begun and not self.accepts and time.monotonic() < deadline:
            self.turn()
        for worker in self.workers:
            worker.setsockopt(zmq.LINGER, 1000)
            worker.send_multipart([b"", b"NFPW01", b"0x03", b"bench"])
        self.context.destroy()

    def _until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self.turn()


def bare(secret: str = "") -> None:
    """Only pass frames between two libzmq ROUTERs: the cost of Python and ZeroMQ."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    front, back = context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)
    for socket in (front, back):
        if secret:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, secret.encode())
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (front, back)]
    print(json.dumps([f"tcp://127.0.0.1:{port}" for port in ports]), flush=True)
    poller = zmq.Poller()
    poller.register(front, zmq.POLLIN)
    poller.register(back, zmq.POLLIN)
    while True:
        for socket, _ in poller.poll():
            pump = _forward if socket is front else _back
            try:
                for _ in range(1000):
                    name, *frames = socket.recv_multipart(zmq.NOBLOCK)
                    for to, message in pump(name, frames):
                        (back if to == WORKER else front).send_multipart([to, *message])
            except zmq.Again:
                pass


async def transport(secret: str = "") -> None:
    """Only pass frames through our own ROUTER: the minimum cost of our broker."""
    from dragoman.transports.zmtp import Router

    router = Router("tcp://127.0.0.1:0", secrets=[secret.encode()] if secret else [])
    woken = asyncio.Event()
    endpoint = await router.open(woken.set)
    print(json.dumps([endpoint, endpoint]), flush=True)
    while True:
        await woken.wait()
        woken.clear()
        for name, frames in router.drain(1000):
            pump = _back if name == WORKER else _forward
            for to, message in pump(name, frames):
                router.send(to, message)
        router.flush()


Passed = Iterator[tuple[bytes, tuple[bytes, ...]]]


def _forward(client: bytes, frames: list[bytes]) -> Passed:
    uuid, body = frames[5:7]
    yield WORKER, (b"", b"NFPB01", b"0x04", client, b"", uuid, body)


def _back(worker: bytes, frames: list[bytes]) -> Passed:
    if len(frames) > 6:
        client, uuid, status, body = frames[3], *frames[5:8]
        yield client, (b"", b"NFPB01", b"0x05", b"bench", uuid, status, body)


def norfab(folder: str) -> None:
    """Run NorFab's own broker, without encryption and with its logging quiet."""
    from norfab.core.broker import NFPBroker
    from norfab.core.inventory import NorFabInventory

    probe = zmq.Context().socket(zmq.ROUTER)
    port = probe.bind_to_random_port("tcp://127.0.0.1")
    probe.close()
    endpoint = f"tcp://127.0.0.1:{port}"
    inventory = NorFabInventory(data={"broker": {"zmq_auth": False}}, base_dir=folder)
    broker = NFPBroker(endpoint, threading.Event(), inventory, log_level="ERROR")
    print(json.dumps([endpoint, endpoint]), flush=True)
    broker.mediate()


def main(role: str, *arguments: str) -> None:
    if role == "load":
        clients, workers, mode, seconds = arguments
        print(json.dumps(Load(clients, workers, mode).measure(float(seconds))))
    elif role == "norfab":
        norfab(*arguments)
    elif role == "transport":
        asyncio.run(transport(*arguments))
    else:
        bare(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
