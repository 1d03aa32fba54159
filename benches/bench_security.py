"""What security costs NFP: gate and policy, and an honest client beside 10,000 strangers.

All in one run, with the raw peers of `bench_nfp`; `bench_curve` measures CURVE itself. With
`strangers` the broker has security on, and each stranger makes one handshake with an unknown key.
Strangers use another address than the honest client: a broker refuses an address that fails too
often.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import TypeAlias

import psutil
import zmq
from benches.bench_curve import Broker, curve, keys_for_peers
from benches.bench_nfp import load

Row: TypeAlias = tuple[str, float, str]

ROUNDS = 5
STRANGERS = 10_000
AT_ONCE = 100
#: Most seconds for the strangers; on a busy machine there are then fewer of them.
LONGEST = 300.0


def run(seconds: float = 2.0) -> list[Row]:
    """Measure everything; `seconds` is the time for each figure."""
    return [*policy(seconds), *strangers(seconds)]


def policy(seconds: float) -> list[Row]:
    """Compare a broker that accepts every key with one that checks registry and policy."""
    cpu: dict[str, list[float]] = {"CURVE": [], "CURVE and policy": []}
    with curve() as one, guarded() as two:
        for _ in range(ROUNDS):
            for name, (process, endpoints, keys) in zip(cpu, (one, two), strict=True):
                with keys_for_peers(keys):
                    cpu[name].append(load(process, endpoints, "pipelined", seconds)["cpu"])
    before, after = (median(each) for each in cpu.values())
    return [
        *((f"security: {name}, CPU", median(each), "us each") for name, each in cpu.items()),
        ("security: gate, policy and accounts cost", 100 * (after / before - 1), "%"),
    ]


def strangers(seconds: float) -> list[Row]:
    """Measure an honest client while strangers make handshakes, in turn with pauses.

    Strangers use the same machine. So the client is also measured while they connect to another
    broker: that part of the delay is not caused by this broker.
    """
    p99: dict[str, list[float]] = {"alone": [], "here": [], "elsewhere": []}
    with guarded() as (process, endpoints, keys), guarded() as other, keys_for_peers(keys):
        load(process, endpoints, "sequential", 1.0)
        cost = _processor_time(process, endpoints[0], keys.split()[2])
        with _crowd(endpoints[0], keys) as here, _crowd(other[1][0], other[2]) as next_door:
            turns = (("alone", None), *[("here", here)] * 4, ("elsewhere", next_door))
            while here.poll() is None:
                for name, crowd in turns:
                    with _knocking(crowd):
                        found = load(process, endpoints, "sequential", seconds)["p99"]
                    if crowd is None or crowd.poll() is None:
                        p99[name].append(found)
            assert here.stdout is not None
            knocked = int(here.stdout.read())
    alone, beside, control = (median(each) for each in p99.values())
    return [
        ("security: honest client alone: p99", alone, "ms"),
        (f"security: beside {knocked} strangers: p99", beside, "ms"),
        ("security: beside strangers at another broker: p99", control, "ms"),
        ("security: the second by the first (aim 2 at most)", beside / alone, "times"),
        ("security: the third by the first", control / alone, "times"),
        ("security: the broker's processor time for a stranger", cost, "us each"),
    ]


@contextmanager
def _crowd(endpoint: str, keys: str) -> "Iterator[subprocess.Popen[str]]":
    """Start strangers that wait for a signal, until the block ends."""
    command = [sys.executable, "-m", "benches.bench_security", _from_elsewhere(endpoint)]
    with subprocess.Popen([*command, keys.split()[2]], stdout=subprocess.PIPE, text=True) as crowd:
        crowd.send_signal(signal.SIGSTOP)
        try:
            yield crowd
        finally:
            crowd.kill()


@contextmanager
def _knocking(crowd: "subprocess.Popen[str] | None") -> Iterator[None]:
    """Let the strangers make handshakes during a block."""
    if crowd is not None:
        crowd.send_signal(signal.SIGCONT)
    try:
        yield
    finally:
        if crowd is not None:
            crowd.send_signal(signal.SIGSTOP)


def _processor_time(process: psutil.Process, endpoint: str, server: str) -> float:
    """Return the CPU time of one refused handshake at an idle broker."""
    time.sleep(2.0)  # its budget for strangers is full again
    before = sum(process.cpu_times()[:2])
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    _knock_once(context, _from_elsewhere(endpoint), server, AT_ONCE)
    context.term()
    return 1e6 * (sum(process.cpu_times()[:2]) - before) / AT_ONCE


def _from_elsewhere(endpoint: str) -> str:
    return endpoint.replace("tcp://", "tcp://127.0.0.2:0;")


def knock(endpoint: str, server: str) -> None:
    """Make handshakes with unknown keys, several at a time."""
    # Real strangers use other machines: here they run with low priority.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    until, knocked = time.monotonic() + LONGEST, 0
    while knocked < STRANGERS and time.monotonic() < until:
        _knock_once(context, endpoint, server, AT_ONCE)
        knocked += AT_ONCE
    context.term()
    print(knocked)


def _knock_once(
    context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str, server: str, count: int
) -> None:
    crowd = [_stranger(context, endpoint, server.encode()) for _ in range(count)]
    for each, monitor in crowd:
        monitor.poll(5000)
        each.disable_monitor()
        monitor.close()
        each.close()


def _stranger(
    context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str, server: bytes
) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    public, secret = zmq.curve_keypair()
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
    socket.setsockopt(zmq.CURVE_SERVERKEY, server)
    monitor = socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    socket.connect(endpoint)
    return socket, monitor


def guarded() -> AbstractContextManager[Broker]:
    """Run a broker with security on that knows the honest peer."""
    return curve(_let_in)


def _let_in(folder: Path, public: str) -> str:
    from dragoman.security.registry import KeyRegistry

    path = folder / "registry.json"
    KeyRegistry.open(path).add(f"curve:{public}", "bench", now=time.time(), roles=("admin",))
    return f'[security]\nenabled = true\nregistry = "{path}"\n'


if __name__ == "__main__":
    knock(*sys.argv[1:])
