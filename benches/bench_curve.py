"""What CURVE costs: our broker with and without it, with three kinds of peers, in one run.

- NorFab's own client and worker (`norfab` 0.25). With many jobs at once, timers in the client set
  the rate, which varies by half between bursts. So that case is given in CPU time of all three.
- Our SDK: `Client` and `dragoman worker`.
- The raw peers of `bench_nfp`, which only send and receive. For comparison, a bare libzmq loop with
  the same peers: its loss is the least that CURVE costs with any broker.

All variants run in many short turns, so that other load on the machine affects them equally.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import psutil
import zmq
from benches.bench_nfp import Endpoints, bare, dragoman, load
from tests.interop.harness import Fleet, until
from tests.interop.norfab_peers import SERVER_KEY, RealClient, start_worker

from dragoman import Client
from dragoman.sdk.credentials import FILE_VARIABLE, Credentials, write_credentials

Row: TypeAlias = tuple[str, float, str]
#: A process, its endpoints for clients and workers, and the keys that a peer of it has.
Broker: TypeAlias = tuple[psutil.Process, Endpoints, str]
#: Does a number of jobs, or as many as it can in some time; returns how many in a second.
Measure: TypeAlias = Callable[[], float]

ROUNDS = 15
JOBS = 100
TASKS = "dragoman.testing.tasks"
BARE = "a bare loop of libzmq"


def run(seconds: float = 0.7) -> list[Row]:
    """Measure everything; `seconds` is the time for each figure of the raw peers."""
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        fleet = Fleet(Path(stack.enter_context(TemporaryDirectory())))
        stack.callback(fleet.end)
        measures = {
            (peers, kind): measure
            for kind in ("plain", "CURVE")
            for peers, measure in _measures(stack, fleet, kind, seconds)
        }
        peers = dict.fromkeys(name for name, _ in measures)
        for _ in range(ROUNDS):
            for pair in ((name, kind) for name in peers for kind in ("plain", "CURVE")):
                rates.setdefault(pair, []).append(measures[pair]())
    middle = {pair: median(each) for pair, each in rates.items()}
    return [
        *((f"curve: {name}, {kind}", rate, "/s") for (name, kind), rate in middle.items()),
        *_costs(middle),
    ]


def _costs(rates: dict[tuple[str, str], float]) -> Iterator[Row]:
    for name in dict.fromkeys(name for name, _ in rates):
        lost = 100 * (1 - rates[name, "CURVE"] / rates[name, "plain"])
        aim = "" if BARE in name else " (aim 15 at most)"
        yield f"curve: costs {name}{aim}", lost, "%"


def _measures(
    stack: ExitStack, fleet: Fleet, kind: str, seconds: float
) -> Iterator[tuple[str, Measure]]:
    """Start a broker and a bare loop with their peers; yield a function for each."""
    broker = stack.enter_context(curve() if kind == "CURVE" else plain())
    pure = stack.enter_context(loop(kind == "CURVE"))
    yield from norfab_peers(fleet, broker, kind)
    yield from sdk_peers(stack, fleet, broker, kind)
    for name, asked in (("raw peers", broker), (BARE, pure)):
        for mode in ("sequential", "pipelined"):
            yield f"{name}, {mode}", _raw(asked, mode, seconds)


def _raw(broker: Broker, mode: str, seconds: float) -> Measure:
    process, endpoints, keys = broker

    def measure() -> float:
        with keys_for_peers(keys):
            return load(process, endpoints, mode, seconds)["rate"]

    return measure


def norfab_peers(fleet: Fleet, broker: Broker, kind: str) -> Iterator[tuple[str, Measure]]:
    """Start NorFab's own worker and client; yield jobs one by one, and many submitted at once."""
    process, (endpoint, _), keys = broker
    with _environment(SERVER_KEY, keys.split()[2] if keys else ""):
        worker = start_worker(fleet, endpoint, f"worker-{kind}")
        client = RealClient(fleet, endpoint, f"client-{kind}")
    three = [process, psutil.Process(worker.pid), psutil.Process(client.process.pid)]
    job: dict[str, Any] = {"service": "probe", "task": "add", "kwargs": {"x": 2, "y": 3}}
    until(lambda: client.ask("run", **job)["result"], "NorFab's worker answers")

    def one_by_one() -> None:
        for _ in range(JOBS):
            assert client.ask("run", **job)["result"]

    def at_once() -> None:
        assert all(client.ask("burst", count=JOBS, **job))

    yield "norfab's own peers, one by one", lambda: _rate(one_by_one)
    name = "norfab's own peers, many at once, by processor time"
    yield name, lambda: _rate(at_once, clock=lambda: _used(three))


def _used(processes: list[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def sdk_peers(
    stack: ExitStack, fleet: Fleet, broker: Broker, kind: str
) -> Iterator[tuple[str, Measure]]:
    """Start our own worker and client; yield calls one by one, and a map with 50 in flight."""
    _, (endpoint, _), keys = broker
    url = endpoint.replace("tcp://", "nfp://")
    path = fleet.folder / f"sdk-{kind}.key"
    write_credentials(path, Credentials(*keys.split()))
    with_key = {FILE_VARIABLE: str(path)} if keys else {}
    fleet.dragoman("worker", TASKS, "--service", "sdk", "--url", url, env=with_key)
    client = stack.enter_context(Client(url, credentials=path if keys else None))
    client.call("sdk", "echo", value=1, timeout=30)

    def one_by_one() -> None:
        for number in range(JOBS):
            assert client.call("sdk", "echo", value=number, timeout=30) == number

    def mapped() -> None:
        calls = [{"value": number} for number in range(4 * JOBS)]
        assert len(list(client.map("sdk", "echo", calls, window=50, timeout=60))) == len(calls)

    yield "our SDK, one by one", lambda: _rate(one_by_one)
    yield "our SDK, 50 in flight", lambda: _rate(mapped, 4 * JOBS)


def _rate(
    work: Callable[[], None], jobs: int = JOBS, clock: Callable[[], float] = time.monotonic
) -> float:
    begun = clock()
    work()
    return jobs / (clock() - begun)


def keys_for_peers(keys: str) -> AbstractContextManager[None]:
    """Pass keys to the raw peers that are started in a block."""
    return _environment("BENCH_KEYS", keys)


@contextmanager
def _environment(name: str, said: str) -> Iterator[None]:
    """Set environment variables for the processes that are started in a block."""
    os.environ[name] = said
    try:
        yield
    finally:
        del os.environ[name]


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
def curve(more: Callable[[Path, str], str] = lambda folder, public: "") -> Iterator[Broker]:
    """Run a broker with a key; `more` may add settings for the public key of its peer."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        server, own = zmq.curve_keypair(), zmq.curve_keypair()
        path = folder / "broker.key"
        path.write_bytes(server[1])
        path.chmod(0o600)
        settings = f'[credentials]\ncurve = ["{path}"]\n' + more(folder, own[0].decode())
        with dragoman("relaxed", settings) as (process, endpoints):
            yield process, endpoints, b" ".join((*own, server[0])).decode()
