"""Many raw NFP peers in one process: `python -m tests.interop.scale_peers ENDPOINT FIRST COUNT`.

Makes COUNT workers and COUNT clients, each with a socket of its own. Workers beat; every client
asks for one job after the other. A line on standard input ends the asking; when the last job is
answered, what was seen is printed as JSON. The workers stay until standard input ends.
"""

import json
import random
import select
import sys
import time
from typing import Final

import zmq
from tests.interop.raw_nfp import (
    DISCONNECT,
    KEEPALIVE,
    POST,
    RESPONSE,
    RawClient,
    RawWorker,
    new_id,
    post_body,
)

BEAT_EVERY: Final = 2.5
#: Each client asks about this often.
ASK_EVERY: Final = 8.0
SERVICES: Final = 100
_BODY: Final = post_body(timeout=120)


class Crowd:
    """The peers and what they saw."""

    def __init__(self, endpoint: str, first: int, count: int) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, 2 * count + 10)
        numbers = range(first, first + count)
        self.workers = [
            RawWorker(endpoint, b"w%d" % i, b"s%d" % (i % SERVICES), context) for i in numbers
        ]
        self.clients = [RawClient(endpoint, b"c%d" % i, context) for i in numbers]
        self.poller = zmq.Poller()
        self.of_socket: dict[object, RawWorker | RawClient] = {}
        peers: list[RawWorker | RawClient] = [*self.workers, *self.clients]
        for peer in peers:
            self.poller.register(peer.socket, zmq.POLLIN)
            self.of_socket[peer.socket] = peer
        now = time.monotonic()
        self.beat_at = {w.identity: now + random.random() * BEAT_EVERY for w in self.workers}
        self.ask_at = {c.identity: now + random.random() * ASK_EVERY for c in self.clients}
        self.open: dict[bytes, float] = {}
        self.seen = {"asked": 0, "answered": 0, "failed": 0, "dismissed": 0, "beats": 0}
        self.took: list[float] = []
        for worker in self.workers:
            worker.ready()

    def turn(self, is_asking: bool) -> None:
        for socket, _ in self.poller.poll(100):
            peer = self.of_socket[socket]
            while (frames := peer.get_or_none()) is not None:
                self._take(peer, frames)
        now = time.monotonic()
        for worker in self.workers:
            if now >= self.beat_at[worker.identity]:
                self.beat_at[worker.identity] = now + BEAT_EVERY
                worker.beat()
        for client in self.clients if is_asking else ():
            if now >= self.ask_at[client.identity]:
                self.ask_at[client.identity] = now + ASK_EVERY
                self._ask(client, now)

    def _ask(self, client: RawClient, now: float) -> None:
        service = b"s%d" % random.randrange(SERVICES)
        uuid = client.post(service, body=_BODY, uuid=new_id())
        self.open[uuid] = now
        self.seen["asked"] += 1

    def _take(self, peer: "RawWorker | RawClient", frames: list[bytes]) -> None:
        if isinstance(peer, RawWorker):
            if frames[1] == POST:
                peer.finish(frames[2], frames[4], 1)
            elif frames[1] == KEEPALIVE:
                self.seen["beats"] += 1
            elif frames[1] == DISCONNECT:
                self.seen["dismissed"] += 1
        elif frames[1] == RESPONSE and frames[4] != b"202":
            self.seen["answered" if frames[4] == b"200" else "failed"] += 1
            self.took.append(time.monotonic() - self.open.pop(frames[3]))


def main(endpoint: str, first: str, count: str) -> None:
    crowd = Crowd(endpoint, int(first), int(count))
    while not _has_input():
        crowd.turn(is_asking=True)
    sys.stdin.readline()
    deadline = time.monotonic() + 60
    while crowd.open and time.monotonic() < deadline:
        crowd.turn(is_asking=False)
    took = sorted(crowd.took)
    slowest = {"p50": took[len(took) // 2], "p99": took[len(took) * 99 // 100]}
    print(json.dumps(crowd.seen | slowest), flush=True)
    while not _has_input():
        crowd.turn(is_asking=False)


def _has_input() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
