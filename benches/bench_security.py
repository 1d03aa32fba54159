"""What security costs NFP: CURVE beside plain, and an honest client beside 10,000 strangers.

All in one run, with the raw peers of `bench_nfp`, each broker in a process of its own. All of them
take turns, so that what else the machine does falls on each. With `strangers` the broker has
security on; each of them makes one handshake with a key that nobody knows. They come from another
address than the honest client, as they would: a broker turns away the address that fails too often.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeAlias

import psutil
import zmq
from benches.bench_nfp import Endpoints, bare, dragoman, load

Row: TypeAlias = tuple[str, float, str]
Found: TypeAlias = dict[tuple[str, str], list[dict[str, float]]]

ROUNDS = 3
NAMES = ("plain", "CURVE", "CURVE and policy", "bare loop", "bare loop with CURVE")
STRANGERS = 10_000
AT_ONCE = 100
#: On a machine with much else to do there are as many as fit into this, in seconds.
LONGEST = 150.0


def run(seconds: float = 2.0) -> list[Row]:
    """Measure everything; `seconds` is the time for each figure."""
    rows: list[Row] = []
    found: Found = {}
    with (
        plain() as one,
        curve() as two,
        curve(is_guarded=True) as three,
        loop() as four,
        loop(True) as five,
    ):
        brokers = dict(zip(NAMES, (one, two, three, four, five), strict=True))
        for _ in range(ROUNDS):
            for name, (process, endpoints, keys) in brokers.items():
                for mode in ("sequential", "pipelined"):
                    with _keys(keys):
                        said = load(process, endpoints, mode, seconds)
                    found.setdefault((name, mode), []).append(said)
    for (name, mode), each in found.items():
        for what, unit in (("rate", "/s"), ("cpu", "us each"), ("p99", "ms")):
            rows.append((f"nfp: {name}, {mode}: {what}", median(e[what] for e in each), unit))
    return [*rows, *_costs(found), *strangers(seconds)]


def _costs(found: Found) -> Iterator[Row]:
    """Compare CURVE with plain, at our broker and where there is nothing but ZeroMQ.

    Client and worker encrypt as much as the broker does, on the same two cores: what a bare loop
    of libzmq's own sockets loses is what CURVE costs before any broker has done anything.
    """
    for mode in ("sequential", "pipelined"):
        ours = _lost(found, mode, "plain", "CURVE")
        theirs = _lost(found, mode, "bare loop", "bare loop with CURVE")
        yield f"nfp: CURVE costs our broker, {mode} (aim 15 at most)", 100 * ours, "%"
        yield f"nfp: CURVE costs a bare loop of libzmq, {mode}", 100 * theirs, "%"
        more = 100 * (1 - (1 - ours) / (1 - theirs))
        yield f"nfp: the first beyond the second, {mode}", more, "%"
        guarded = 100 * _lost(found, mode, "CURVE", "CURVE and policy")
        yield f"nfp: gate, policy and accounts cost besides, {mode}", guarded, "%"


def _lost(found: Found, mode: str, before: str, after: str) -> float:
    one, two = (median(e["rate"] for e in found[name, mode]) for name in (before, after))
    return 1 - two / one


def strangers(seconds: float) -> list[Row]:
    """Measure an honest client alone, and while strangers knock."""
    with curve(is_guarded=True) as (process, endpoints, keys), _keys(keys):
        load(process, endpoints, "sequential", 1.0)
        alone = [load(process, endpoints, "sequential", seconds)["p99"] for _ in range(ROUNDS)]
        server = keys.split()[2]
        cost = _processor_time(process, endpoints[0], server)
        begun = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", "benches.bench_security", _from_elsewhere(endpoints[0]), server],
            stdout=subprocess.PIPE,
            text=True,
        ) as crowd:
            beside = []
            while crowd.poll() is None:
                beside.append(load(process, endpoints, "sequential", seconds)["p99"])
            assert crowd.stdout is not None
            knocked = int(crowd.stdout.read())
        took = time.monotonic() - begun
    ratio = median(beside) / median(alone)
    return [
        ("nfp: honest client alone: p99", median(alone), "ms"),
        (f"nfp: beside {knocked} strangers: p99", median(beside), "ms"),
        ("nfp: the second by the first (aim 2 at most)", ratio, "times"),
        ("nfp: handshakes refused", knocked / took, "/s"),
        ("nfp: the broker's processor time for a stranger", cost, "us each"),
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


@contextmanager
def _keys(keys: str) -> Iterator[None]:
    """Let the processes that are started find their keys."""
    os.environ["BENCH_KEYS"] = keys
    try:
        yield
    finally:
        del os.environ["BENCH_KEYS"]


Broker: TypeAlias = tuple[psutil.Process, Endpoints, str]


@contextmanager
def loop(is_secured: bool = False) -> Iterator[Broker]:
    """Run a bare loop on libzmq, with a key if wanted."""
    server, own = zmq.curve_keypair(), zmq.curve_keypair()
    keys = b" ".join((*own, server[0])).decode() if is_secured else ""
    with bare("bare", server[1].decode() if is_secured else "") as (process, endpoints):
        yield process, endpoints, keys


@contextmanager
def plain() -> Iterator[Broker]:
    """Run a broker without credentials."""
    with dragoman("relaxed") as (process, endpoints):
        yield process, endpoints, ""


@contextmanager
def curve(is_guarded: bool = False) -> Iterator[Broker]:
    """Run a broker with a key, and if wanted with security on."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        server, own = zmq.curve_keypair(), zmq.curve_keypair()
        path = folder / "broker.key"
        path.write_bytes(server[1])
        path.chmod(0o600)
        more = f'[credentials]\ncurve = ["{path}"]\n'
        if is_guarded:
            registry = folder / "registry.json"
            _let_in(registry, own[0].decode())
            more += f'[security]\nenabled = true\nregistry = "{registry}"\n'
        with dragoman("relaxed", more) as (process, endpoints):
            yield process, endpoints, b" ".join((*own, server[0])).decode()


def _let_in(path: Path, public: str) -> None:
    from dragoman.security.registry import Registry

    Registry.open(path).add(f"curve:{public}", "bench", now=time.time(), roles=("admin",))


if __name__ == "__main__":
    knock(*sys.argv[1:])
