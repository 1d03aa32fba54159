"""What NFP costs: our broker, strict and relaxed, beside NorFab's own and two bare loops.

All in one run, with the same raw peers (`nfp_peers`), each broker in its own process. A request is
a POST and its result: two messages in. A broker sends three (202, POST, 200), a bare loop two. One
loop uses libzmq, like other brokers in Python. The other uses our own ROUTER: its rate is the limit
of the peers on this machine. The brokers are measured with one worker and with fleets, because the
cost of a request may grow with the number of idle peers.
`accepts` are jobs on disk and acknowledged (202), from 200 clients at once.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import psutil

Row: TypeAlias = tuple[str, float, str]
Endpoints: TypeAlias = tuple[str, str]

FLEETS = ("200 workers", "2,000 workers")

SETTINGS = """
[listen]
nfp = "tcp://127.0.0.1:0"
{others}
[services.bench]
durability = "{durability}"
[nfp]
patience = 600
[ledger]
seal = false
[limits]
queued_jobs = 1000000
"""


def run(seconds: float = 4.0) -> list[Row]:
    """Measure everything; `seconds` is the time for each figure."""
    rows: list[Row] = []
    rates: dict[str, float] = {}
    costs: dict[str, float] = {}
    makers = {
        "bare loop": bare(),
        "bare transport": bare("transport"),
        "dragoman relaxed": dragoman("relaxed"),
        "dragoman strict": dragoman("strict"),
        "norfab": norfab(),
    }
    for name, maker in makers.items():
        with maker as (process, endpoints):
            for mode in ("sequential", "pipelined", *(() if "bare" in name else FLEETS)):
                found = load(process, endpoints, mode, seconds)
                rates[f"{name} {mode}"] = found["rate"]
                costs[f"{name} {mode}"] = found["cpu"]
                rows += _rows(f"nfp: {name}, {mode}", found)
    with dragoman("strict") as (process, endpoints):
        found = load(process, endpoints, "accepts", seconds)
        rows += _rows("nfp: dragoman strict, accepts of 200 clients", found)
    return [*rows, *_ratios(rates, costs)]


def _ratios(rates: dict[str, float], costs: dict[str, float]) -> list[Row]:
    """Compare the figures of one run; CPU time is the most reliable on a busy machine."""
    bare_rate, theirs = rates["bare loop pipelined"], rates["norfab pipelined"]
    bare_cost, their_cost = costs["bare loop pipelined"], costs["norfab pipelined"]
    ours, our_cost = rates["dragoman relaxed pipelined"], costs["dragoman relaxed pipelined"]
    ceiling = rates["bare transport pipelined"] / theirs
    return [
        *_against_norfab(rates),
        ("nfp: relaxed against norfab by processor time", their_cost / our_cost, "times"),
        ("nfp: the most these peers can ask for, against norfab", ceiling, "times"),
        ("nfp: relaxed against the bare loop, pipelined (aim 50)", 100 * ours / bare_rate, "%"),
        ("nfp: the same by processor time", 100 * bare_cost / our_cost, "%"),
    ]


def _against_norfab(rates: dict[str, float]) -> Iterator[Row]:
    for mode, fleet in (("pipelined", "one worker"), *((each, each) for each in FLEETS)):
        theirs = rates[f"norfab {mode}"]
        for durability in ("relaxed", "strict") if theirs else ():
            ratio = rates[f"dragoman {durability} {mode}"] / theirs
            yield f"nfp: {durability} against norfab, {fleet} (aim 10)", ratio, "times"


def _rows(name: str, found: dict[str, float]) -> list[Row]:
    return [
        (name, found["rate"], "/s"),
        (f"{name}: CPU", found["cpu"], "us each"),
        (f"{name}: p50", found["p50"], "ms"),
        (f"{name}: p99", found["p99"], "ms"),
    ]


def load(
    broker: psutil.Process, endpoints: Endpoints, mode: str, seconds: float
) -> dict[str, float]:
    """Put load on a broker; return rate, latencies, and the CPU time for each request.

    `thread` is the share of its main thread, which does all but disk and libzmq work.
    """
    with subprocess.Popen(
        [*_peers("load"), *endpoints, mode, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peers:
        assert peers.stdin is not None
        assert peers.stdout is not None
        assert peers.stdout.readline() == "measuring\n"
        before, thread = cpu_of(broker), _first_thread(broker)
        peers.stdin.write("\n")
        peers.stdin.flush()
        found: dict[str, float] = json.loads(peers.stdout.readline())
        requests = found["requests"] or 1.0
        found["cpu"] = (cpu_of(broker) - before) / requests * 1e6
        found["thread"] = (_first_thread(broker) - thread) / requests * 1e6
    return found


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _first_thread(process: psutil.Process) -> float:
    return next(
        float(thread.user_time + thread.system_time)
        for thread in process.threads()
        if thread.id == process.pid
    )


def _peers(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benches.nfp_peers", *arguments]


@contextmanager
def _started(*arguments: str) -> Iterator[tuple[psutil.Process, Endpoints]]:
    with subprocess.Popen(
        _peers(*arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            first, second = json.loads(process.stdout.readline())
            yield psutil.Process(process.pid), (first, second)
        finally:
            process.kill()


@contextmanager
def bare(kind: str = "bare", secret: str = "") -> Iterator[tuple[psutil.Process, Endpoints]]:
    """Run a bare loop: on libzmq (`bare`), or on our own ROUTER (`transport`)."""
    with _started(kind, *([secret] if secret else [])) as found:
        yield found


@contextmanager
def norfab() -> Iterator[tuple[psutil.Process, Endpoints]]:
    """Run NorFab's broker."""
    with TemporaryDirectory() as folder, _started("norfab", folder) as found:
        yield found


@contextmanager
def dragoman(durability: str, more: str = "") -> Iterator[tuple[psutil.Process, Endpoints]]:
    """Run our broker with nothing but its NFP link; `more` are further settings."""
    from dragoman.server.settings import Listen

    with TemporaryDirectory() as name:
        folder = Path(name)
        config, ready = folder / "dragoman.toml", folder / "ready.json"
        others = "\n".join(f'{link} = "off"' for link in Listen.model_fields if link != "nfp")
        config.write_text(SETTINGS.format(durability=durability, others=others) + more)
        command = [str(Path(sys.executable).with_name("dragoman")), "up", "--config", str(config)]
        with subprocess.Popen(
            [*command, "--data", str(folder / "data"), "--ready-file", str(ready)],
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield psutil.Process(process.pid), _ready(process, ready)
            finally:
                process.kill()


def _ready(process: "subprocess.Popen[Any]", ready: Path) -> Endpoints:
    while not ready.exists():
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the broker ended with code {process.returncode}")
    endpoint = json.loads(ready.read_text())["nfp"]
    return endpoint, endpoint
