"""What idle peers cost: 2,000 workers and 2,000 clients that only send heartbeats, once a second.

Workers send NFP's KEEPALIVE and get the broker's. NFP clients have no heartbeat, so theirs are the
PINGs of ZeroMQ. The figures are the broker's CPU as a share of a core, and its memory for each
connection. The peers are raw DEALERs in another process.
"""

import json
import os
import resource
import subprocess
import sys
import time

import psutil
import zmq
from benches.bench_nfp import Row, cpu_of, dragoman

WORKERS = CLIENTS = 2000
SECONDS = 15.0
EVERY = 1.0


def run() -> list[Row]:
    """Measure the broker without peers, then with them."""
    os.environ["DRAGOMAN_NFP__BEAT_EVERY"] = str(EVERY)
    with dragoman("relaxed") as (broker, endpoints):
        alone, before = share(broker), broker.memory_info().rss
        peers = subprocess.Popen(
            [sys.executable, "-m", "benches.bench_idle", *endpoints],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert peers.stdout is not None
            registered = json.loads(peers.stdout.readline())
            beating, after = share(broker), broker.memory_info().rss
        finally:
            peers.kill()
            peers.wait()
    return [
        ("idle: broker without peers", 100 * alone, "% of a core"),
        ("idle: workers that were heard of", registered, ""),
        (f"idle: {WORKERS:,} workers and {CLIENTS:,} clients", 100 * beating, "% of a core"),
        ("idle: memory of a connection", (after - before) / (WORKERS + CLIENTS) / 1e3, "kB"),
    ]


def share(broker: psutil.Process) -> float:
    """Return the share of a core that the broker uses."""
    before = cpu_of(broker)
    time.sleep(SECONDS)
    return (cpu_of(broker) - before) / SECONDS


def beat(clients: str, workers: str) -> None:
    """Connect all peers, print how many workers were heard of, and beat for ever."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, WORKERS + CLIENTS + 10)
    fleet = [_dealer(context, workers, b"w%d" % n) for n in range(WORKERS)]
    others = [_dealer(context, clients, b"c%d" % n, pings=True) for n in range(CLIENTS)]
    for worker in fleet:
        worker.send_multipart([b"", b"NFPW01", b"0x01", b"bench"])
    for client in others:
        client.send_multipart([b"", b"NFPC01", b"0x00", b"{}"])
    heard: set[int] = set()
    while True:
        begun = time.monotonic()
        for number, worker in enumerate(fleet):
            if _drain(worker):
                heard.add(number)
            worker.send_multipart([b"", b"NFPW01", b"0x02", b"bench"])
            # Beats are spread over the second, as those of separate processes are.
            time.sleep(max(0.0, begun + EVERY * number / WORKERS - time.monotonic()))
        for client in others:
            _drain(client)
        if len(heard) == WORKERS:
            print(len(heard), flush=True)
            heard.add(-1)


def _dealer(
    context: "zmq.Context[zmq.Socket[bytes]]",
    endpoint: str,
    identity: bytes,
    *,
    pings: bool = False,
) -> "zmq.Socket[bytes]":
    made = context.socket(zmq.DEALER)
    made.setsockopt(zmq.IDENTITY, identity)
    made.setsockopt(zmq.LINGER, 0)
    if pings:
        made.setsockopt(zmq.HEARTBEAT_IVL, int(EVERY * 1000))
    made.connect(endpoint)
    return made


def _drain(peer: "zmq.Socket[bytes]") -> int:
    """Read what has arrived; return how much."""
    count = 0
    try:
        while True:
            peer.recv_multipart(zmq.NOBLOCK)
            count += 1
    except zmq.Again:
        return count


if __name__ == "__main__":
    beat(*sys.argv[1:])
