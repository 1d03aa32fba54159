"""What security costs NFP: gate and policy, and an honest client beside 10,000 strangers.

All in one run, with the raw peers of `bench_nfp`; what CURVE itself costs is in `bench_curve`. With
`strangers` the broker has security on; each of them makes one handshake with a key that nobody
knows. They come from another address than the honest client, as they would: a broker turns away the
address that fails too often.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
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
#: On a machine with much else to do there are as many as fit into this, in seconds.
LONGEST = 200.0


def run(seconds: float = 2.0) -> list[Row]:
    """Measure everything; `seconds` is the time for each figure."""
    return [*policy(seconds), *strangers(seconds)]


def policy(seconds: float) -> list[Row]:
    """Measure a broker that lets every key in beside one that asks registry and policy."""
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
    """Measure an honest client while strangers knock, and again and again while they pause."""
    alone: list[float] = []
    beside: list[float] = []
    with guarded() as (process, endpoints, keys), keys_for_peers(keys):
        load(process, endpoints, "sequential", 1.0)
        server = keys.split()[2]
        cost = _processor_time(process, endpoints[0], server)
        with subprocess.Popen(
            [sys.executable, "-m", "benches.bench_security", _from_elsewhere(endpoints[0]), server],
            stdout=subprocess.PIPE,
            text=True,
        ) as crowd:
            while crowd.poll() is None:
                crowd.send_signal(signal.SIGSTOP)
                alone.append(load(process, endpoints, "sequential", seconds)["p99"])
                crowd.send_signal(signal.SIGCONT)
                beside += [load(process, endpoints, "sequential", seconds)["p99"] for _ in "123"]
            assert crowd.stdout is not None
            knocked, took = crowd.stdout.read().split()
    ratio = median(beside) / median(alone)
    return [
        ("security: honest client alone: p99", median(alone), "ms"),
        (f"security: beside {knocked} strangers: p99", median(beside), "ms"),
        ("security: the second by the first (aim 2 at most)", ratio, "times"),
        ("security: handshakes refused", int(knocked) / float(took), "/s"),
        ("security: the broker's processor time for a stranger", cost, "us each"),
    ]


def _processor_time(process: psutil.Process, endpoint: str, server: str) -> float:
    """Return what one refused handshake costs a broker that has nothing else to do."""
    time.sleep(2.0)  # its budget for strangers is full again
    before = sum(process.cpu_times()[:2])
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    _knock_once(context, _from_elsewhere(endpoint), server, AT_ONCE)
    context.term()
    return 1e6 * (sum(process.cpu_times()[:2]) - before) / AT_ONCE


def _from_elsewhere(endpoint: str) -> str:
    return endpoint.replace("tcp://", "tcp://127.0.0.2:0;")


def knock(endpoint: str, server: str) -> None:
    """Make handshakes with keys that nobody knows, some at a time, each to its end."""
    os.nice(5)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    begun, knocked = time.monotonic(), 0
    while knocked < STRANGERS and time.monotonic() < begun + LONGEST:
        _knock_once(context, endpoint, server, AT_ONCE)
        knocked += AT_ONCE
    context.term()
    print(knocked, time.monotonic() - begun)


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
    """Run a broker with security on, which knows its peer."""
    return curve(_let_in)


def _let_in(folder: Path, public: str) -> str:
    from dragoman.security.registry import Registry

    path = folder / "registry.json"
    Registry.open(path).add(f"curve:{public}", "bench", now=time.time(), roles=("admin",))
    return f'[security]\nenabled = true\nregistry = "{path}"\n'


if __name__ == "__main__":
    knock(*sys.argv[1:])
