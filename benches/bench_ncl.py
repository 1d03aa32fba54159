"""What NCL costs: codec, executions through bid and run, handshakes of many nodes, replays.

The first figures are of the pure parts, in this process. The others are of real processes on this
machine: `dragoman up` with its nats-server, a worker and an NFP client; or nodes that only make
handshakes and send heartbeats.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from dragoman import AsyncClient
from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendWork
from dragoman.core.events import JobSubmitted
from dragoman.dialects.base import Send
from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.body_codec import NclBodyCodec
from dragoman.dialects.ncl.broker_side import NclBrokerSide
from dragoman.dialects.ncl.dataplane import Publisher
from dragoman.dialects.ncl.executions import ask_for_bid
from dragoman.dialects.ncl.messages import (
    CancelExecution,
    HandshakeRequest,
    HeartbeatRequest,
    RunResult,
)
from dragoman.dialects.ncl.models import ComputeInfo, NodeInfo, Resources, WireObject
from dragoman.dialects.ncl.settings import OrchestratorSettings
from dragoman.dialects.ncl.worker_side import NclWorkerSide
from dragoman.dialects.peer_sides import Assigned, SendNow
from dragoman.model.content import Answer, Call
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.transports.nats import Nats

Row: TypeAlias = tuple[str, float, str]

NODES = 1000
REPLAYED = 100_000
EXECUTIONS = 3000
DRAGOMAN = str(Path(sys.executable).with_name("dragoman"))


def run() -> list[Row]:
    """Measure everything."""
    return [*codec(), *in_memory(), *handshakes(), *replays(), *over_nats(), *end_to_end()]


def _rate(number: int, work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return number / (time.perf_counter() - begun)


# --- pure ---------------------------------------------------------------------------------------


def codec() -> list[Row]:
    """Encode and decode three messages of different sizes."""
    rows: list[Row] = []
    messages: list[tuple[str, WireObject]] = [
        ("heartbeat", HeartbeatRequest("n-1", Resources(4, 8589934592), Resources(), 7)),
        ("ask for bid", _ask()),
        ("run result", RunResult("e-1", "j-1", "batch")),
    ]
    for name, payload in messages:
        pairs = wire.metadata(payload, "n-1", 1.7e9)
        data = wire.encode(payload, pairs)
        encode = _rate(5000, partial(_repeat, wire.encode, payload, pairs))
        decode = _rate(5000, partial(_repeat, wire.decode, data))
        rows += [
            (f"ncl: encode {name}, {len(data)} bytes", 1e6 / encode, "us"),
            (f"ncl: decode {name}, {len(data)} bytes", 1e6 / decode, "us"),
        ]
    return rows


def _repeat(work: Callable[..., object], *args: object) -> None:
    for _ in range(5000):
        work(*args)


def _ask() -> WireObject:
    body = NclBodyCodec().write_call(Call("add", kwargs={"x": 1}))
    work = SendWork(PeerId("ncl/n"), JobId("j"), 1, ServiceName("s"), PeerId("c/c"), body)
    return ask_for_bid(work, {"task": "add"}, OrchestratorSettings(), 1.7e9)


class Memory:
    """The core, its NCL side and nodes, connected in memory."""

    def __init__(self, nodes: int, slots: int) -> None:
        self.now = 1.7e9
        self.broker = Broker()
        self.side = NclBrokerSide(codecs={"ncl": NclBodyCodec()}, ids=lambda: "bench")
        self.queue: deque[tuple[str, Sequence[bytes]]] = deque()
        self.nodes = {name: self._node(name, slots) for name in (f"n-{i}" for i in range(nodes))}
        self.inboxes = {n.subscriptions[2].removesuffix(".*"): n for n in self.nodes.values()}
        self.finals = 0

    def _node(self, name: str, slots: int) -> NclWorkerSide:
        return NclWorkerSide(name, ("math",), ids=lambda: name, clock=lambda: self.now, slots=slots)

    def join(self) -> None:
        for node in self.nodes.values():
            self.send(node.join())
        self.settle()

    def send(self, messages: Any) -> None:
        self.queue.extend((f[0].decode(), f[1:]) for f in messages)

    def settle(self) -> None:
        while self.queue:
            self.deliver(*self.queue.popleft())

    def deliver(self, subject: str, frames: Sequence[bytes]) -> None:
        node = self.inboxes.get(subject.rpartition(".")[0])
        if node is None and subject.endswith((".in.msgs", "ExecutionLogs/v1")):
            node = self.nodes[subject.split(".")[3 if subject.endswith("msgs") else 2]]
        if node is not None:
            self.hear(node, subject, frames)
            return
        for item in self.side.receive(subject.encode(), frames, self.now):
            if isinstance(item, Send):
                self.queue.append((item.address.decode(), item.frames))
            else:
                self.do(self.broker.handle(item, self.now))

    def hear(self, node: NclWorkerSide, subject: str, frames: Sequence[bytes]) -> None:
        for word in node.receive([subject.encode(), *frames]):
            if isinstance(word, SendNow):
                self.send([word.frames])
            elif isinstance(word, Assigned):
                node.take(word.ticket)
                self.send(node.finish(word.ticket, Answer(value=1)))

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendReply):
                self.finals += effect.kind == "final"
            elif not isinstance(effect, Append):
                sends = self.side.render(effect, self.now)
                self.queue.extend((s.address.decode(), s.frames) for s in sends)

    def submit(self, number: int) -> None:
        body = NclBodyCodec().write_call(Call("add", kwargs={"x": number}))
        job = JobSubmitted(JobId(f"j{number}"), PeerId("b/c"), ServiceName("math"), body)
        self.do(self.broker.handle(job, self.now))


def in_memory() -> list[Row]:
    """Run executions through bid and run: core, side, codec and node, without sockets or disk."""
    memory = Memory(nodes=4, slots=25)
    memory.join()

    def work() -> None:
        for number in range(EXECUTIONS):
            memory.submit(number)
            memory.settle()

    rate = _rate(EXECUTIONS, work)
    assert memory.finals == EXECUTIONS
    return [("ncl: executions through bid and run, both ends, in memory", rate, "/s")]


def _info(name: str) -> NodeInfo:
    compute = ComputeInfo(ExecutionEngines=["noop"], MaxCapacity=Resources(CPU=4))
    return NodeInfo(name, "Compute", {"os_type": "linux"}, ["ncl/v1"], compute)


def _request(name: str, payload: WireObject, reply: str) -> tuple[str, list[bytes]]:
    pairs = wire.metadata(payload, name, time.time())
    return wire.compute_subject(name, wire.CTRL), wire.frames(payload, pairs, reply)


def handshakes() -> list[Row]:
    """Connect many nodes at once; the core registers each."""
    side = NclBrokerSide(codecs={"ncl": NclBodyCodec()}, ids=lambda: "bench")
    broker = Broker()
    requests = [_request(n, HandshakeRequest(_info(n)), "r") for n in map(str, range(NODES))]

    def shake() -> None:
        for subject, frames in requests:
            for item in side.receive(subject.encode(), frames, 1.7e9):
                if not isinstance(item, Send):
                    broker.handle(item, 1.7e9)

    first = _rate(NODES, shake)
    again = _rate(NODES, shake)
    return [
        (f"ncl: handshakes of {NODES} new nodes, in memory", first, "/s"),
        (f"ncl: handshakes of {NODES} known nodes, in memory", again, "/s"),
    ]


def replays() -> list[Row]:
    """Replay many messages, at the sender and at the receiver."""
    publisher = Publisher(30.0, 1000, 5.0, 300.0)
    publisher.open()
    for number in range(REPLAYED):
        publisher.put(number + 1, CancelExecution(None, "e"))

    def replay() -> None:
        while batch := publisher.pump(0.0):
            for item in batch:
                publisher.ack(item.seq)

    sent = _rate(REPLAYED, replay)
    memory = Memory(nodes=1, slots=10)
    memory.join()
    memory.submit(0)
    memory.settle()
    (name,) = memory.side.executions._ended
    result = RunResult(name, "j", "batch")
    subject = wire.compute_subject("n-0", wire.OUT_MSGS).encode()
    frames = wire.frames(result, wire.data_metadata(result, "n-0", 1.7e9, 3, ""), "r")

    def recognise() -> None:
        for _ in range(REPLAYED):
            memory.side.receive(subject, frames, 1.7e9)

    known = _rate(REPLAYED, recognise)
    return [
        (f"ncl: replay of {REPLAYED} messages by the publisher", sent, "/s"),
        (f"ncl: replay of {REPLAYED} known results to the orchestrator", known, "/s"),
    ]


# --- real processes -----------------------------------------------------------------------------


@contextmanager
def broker() -> Iterator[dict[str, str]]:
    """Start `dragoman up` with NFP and NATS; yield its endpoints."""
    with TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        names = [each.name.replace("_", "-") for each in LISTENERS]
        off = [w for n in names if n not in ("nfp", "nats") for w in (f"--{n}", "off")]
        command = [DRAGOMAN, "up", "--data", f"{folder}/data", "--ready-file", str(ready), *off]
        links = ["--nfp", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--log-level", "error"]
        process = subprocess.Popen([*command, *links])
        try:
            while not ready.exists():
                assert process.poll() is None, "the broker did not start"
                time.sleep(0.02)
            yield json.loads(ready.read_text())
        finally:
            process.terminate()
            process.wait()


def over_nats() -> list[Row]:
    """Make handshakes and heartbeats of many nodes, over a real NATS, with a real broker."""
    with broker() as endpoints:
        return asyncio.run(_over_nats(endpoints["nats"]))


async def _over_nats(url: str) -> list[Row]:
    answers = 0
    all_there = asyncio.Event()
    transport = Nats(url, ["_INBOX.bench.*"])

    def wake() -> None:
        nonlocal answers
        answers += len(list(transport.drain(10_000)))
        if answers >= NODES:
            all_there.set()

    await transport.open(wake)
    rows: list[Row] = []
    tokens = count()
    for name, make in (
        ("handshakes", lambda n: HandshakeRequest(_info(n))),
        ("heartbeats", lambda n: HeartbeatRequest(n, Resources(CPU=4))),
    ):
        answers = 0
        all_there.clear()
        begun = time.perf_counter()
        for number in range(NODES):
            node = f"bench-{number}"
            subject, frames = _request(node, make(node), f"_INBOX.bench.{next(tokens)}")
            transport.send(subject.encode(), frames)
        transport.flush()
        async with asyncio.timeout(60):
            await all_there.wait()
        rate = NODES / (time.perf_counter() - begun)
        rows.append((f"ncl: {name} of {NODES} nodes at once, over NATS, recorded", rate, "/s"))
    await transport.close()
    return rows


def end_to_end() -> list[Row]:
    """Run calls of an NFP client on an NCL worker, each in its process, every record on disk."""
    rows: list[Row] = []
    with broker() as endpoints, _worker(endpoints["nats"].replace("tcp", "ncl")):
        for in_flight, calls in ((1, 200), (100, 2000)):
            rate = asyncio.run(_calls(endpoints["nfp"].replace("tcp", "nfp"), in_flight, calls))
            name = f"ncl: NFP client, NCL worker, bid and run, {in_flight} in flight, durable"
            rows.append((name, rate, "executions/s"))
    return rows


def add(x: int, y: int) -> int:
    """The task of the calls."""
    return x + y


@contextmanager
def _worker(url: str) -> Iterator[None]:
    options = ["--service", "bench", "--concurrency", "100", "--log-level", "error"]
    process = subprocess.Popen(
        [DRAGOMAN, "worker", "benches.bench_ncl:add", "--url", url, *options]
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def _calls(url: str, in_flight: int, calls: int) -> float:
    async with AsyncClient(url) as client:
        await client.call("bench", "add", 1, 2, timeout=30)
        gate = asyncio.Semaphore(in_flight)

        async def one(number: int) -> None:
            async with gate:
                assert await client.call("bench", "add", number, 1, timeout=60) == number + 1

        begun = time.perf_counter()
        await asyncio.gather(*(one(n) for n in range(calls)))
        return calls / (time.perf_counter() - begun)
