"""Processes around a memo01 bench: peers that make load, and bare echoes to compare with.

    python -m benches.memo_peers raw|pynng ENDPOINT WORKERS CLIENTS SECONDS   prints answers/s, all
    python -m benches.memo_peers park ENDPOINT COUNT                          parks READYs, waits
    python -m benches.memo_peers echo sp|pynng                                prints its endpoint

With 0 workers the endpoint is an echo. `raw` peers have their own SP codec, so that they do not
limit the rate; `pynng` peers are NNG's own, with one context for each worker and client.
"""

import asyncio
import os
import random
import socket
import sys
import time
from functools import partial
from struct import Struct

import pynng

from dragoman.dialects.memo01.wire import MemoJob, MemoReady, encode
from dragoman.transports.sp import SpReplier
from dragoman.transports.sp_connection import REQUESTER

LENGTH = Struct(">Q")
READY = encode(MemoReady(("svc",)))
JOB = encode(MemoJob(b"", "svc", 60_000, b"p" * 64))
#: Position of the type in every header; the 8-byte ID from the broker follows it.
TYPE, ID = 8, slice(10, 18)
RESULT, BEAT = b"\x83fmemo01\x03\x48", b"\x83fmemo01\x04\x48"
WARM_UP = 1.0
CONNECTIONS = 16


class Count:
    """The number of answers to clients."""

    def __init__(self) -> None:
        self.answers = 0


class RawPeers(asyncio.Protocol):
    """Some workers and clients on one connection, in bytes."""

    def __init__(self, workers: int, clients: int, count: Count) -> None:
        self.workers = workers
        self.clients = clients
        self.count = count
        self.buffer = b""
        self.is_greeted = False
        #: A random start, as in NNG: the same ID and bytes on two connections would be one job.
        self.next_id = random.SystemRandom().randrange(2**31)
        self.is_worker: dict[bytes, bool] = {}
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        out = [REQUESTER]
        out += [self.request(READY, True) for _ in range(self.workers)]
        out += [self.request(JOB, False) for _ in range(self.clients)]
        transport.write(b"".join(out))

    def request(self, body: bytes, is_worker: bool) -> bytes:
        self.next_id = (self.next_id + 1) & 0xFFFFFFFF | 0x80000000
        name = self.next_id.to_bytes(4)
        self.is_worker[name] = is_worker
        return LENGTH.pack(4 + len(body)) + name + body

    def data_received(self, data: bytes) -> None:
        data, at, out = self.buffer + data, 0, list[bytes]()
        if not self.is_greeted:
            # The greeting may arrive with the first answers, but never in parts.
            self.is_greeted, at = True, 8
        while len(data) - at >= 8:
            end = at + 8 + LENGTH.unpack_from(data, at)[0]
            if end > len(data):
                break
            out.append(self.answered(data[at + 8 : at + 12], data[at + 12 : end]))
            at = end
        self.buffer = data[at:]
        self.transport.write(b"".join(out))

    def answered(self, name: bytes, body: bytes) -> bytes:
        if not self.is_worker.pop(name):
            self.count.answers += 1
            return self.request(JOB, False)
        return self.request((RESULT if body[TYPE] == 2 else BEAT) + body[ID], True)


async def raw(endpoint: str, workers: int, clients: int, seconds: float) -> str:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    count, loop = Count(), asyncio.get_running_loop()
    for part in (*spread(workers, 0), *spread(0, clients)):
        await loop.create_connection(partial(RawPeers, *part, count), host, int(port))
    return await rate(count, seconds)


def spread(workers: int, clients: int) -> list[tuple[int, int]]:
    """Distribute peers over connections."""
    many = max(1, min(CONNECTIONS, (workers + clients) // 16))
    parts = [(workers // many, clients // many) for _ in range(many)]
    parts[0] = (workers - workers // many * (many - 1), clients - clients // many * (many - 1))
    return [part for part in parts if any(part)]


async def rate(count: Count, seconds: float) -> str:
    """Return the answers per second, and the total."""
    await asyncio.sleep(WARM_UP)
    before, begun = count.answers, time.perf_counter()
    await asyncio.sleep(seconds)
    return f"{(count.answers - before) / (time.perf_counter() - begun)} {count.answers}"


async def nng(endpoint: str, workers: int, clients: int, seconds: float) -> str:
    count = Count()
    working, asking = pynng.Req0(), pynng.Req0()
    working.dial(endpoint, block=True)
    asking.dial(endpoint, block=True)
    tasks = [asyncio.create_task(work(working.new_context())) for _ in range(workers)]
    tasks += [asyncio.create_task(ask(asking.new_context(), count)) for _ in range(clients)]
    found = await rate(count, seconds)
    print(found, flush=True)
    # Open contexts end with the process: closing a thousand of them is not measured here.
    os._exit(0)


async def work(context: pynng.Context) -> None:
    message = READY
    while True:
        await context.asend(message)
        said = await context.arecv()
        message = (RESULT if said[TYPE] == 2 else BEAT) + said[ID]


async def ask(context: pynng.Context, count: Count) -> None:
    while True:
        await context.asend(JOB)
        await context.arecv()
        count.answers += 1


def park(endpoint: str, many: int) -> None:
    """Open READYs on one connection and keep them open until the input ends."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        frames = [LENGTH.pack(4 + len(READY)) + (0x80000000 + n).to_bytes(4) + READY
                  for n in range(many)]  # fmt: skip
        connection.sendall(REQUESTER + b"".join(frames))
        print("parked", flush=True)
        sys.stdin.read()


async def echo_sp() -> None:
    woken = asyncio.Event()
    replier = SpReplier("tcp://127.0.0.1:0")
    print(await replier.open(woken.set), flush=True)
    while True:
        await woken.wait()
        woken.clear()
        for address, frames in replier.drain(1000):
            if frames:
                replier.send(address, frames)
        replier.flush()


async def echo_pynng(contexts: int = 256) -> None:
    async def serve(context: pynng.Context) -> None:
        while True:
            await context.asend(await context.arecv())

    with pynng.Rep0() as replier:
        listener = replier.listen("tcp://127.0.0.1:0")
        print(f"tcp://127.0.0.1:{socket.ntohs(listener.local_address.port)}", flush=True)
        await asyncio.gather(*(serve(replier.new_context()) for _ in range(contexts)))


def main(command: str, *arguments: str) -> None:
    if command == "echo":
        asyncio.run(echo_sp() if arguments[0] == "sp" else echo_pynng())
    elif command == "park":
        park(arguments[0], int(arguments[1]))
    else:
        endpoint, workers, clients, seconds = arguments
        load = raw if command == "raw" else nng
        print(asyncio.run(load(endpoint, int(workers), int(clients), float(seconds))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
