"""Injects faults: one every few seconds, all kinds in turn, in an order drawn from the seed."""

import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import zmq

from dragoman.testing.fabric import Fabric
from dragoman.testing.soak.proxy import Proxy

#: Seconds that a process is frozen, a connection is cut, a reader does not read.
_FROZEN: Final = 4.0
_CUT: Final = 1.0
_UNREAD: Final = 5.0
#: Jobs of the slow reader: their answers exceed its socket buffers.
_UNREAD_JOBS: Final = 200
_HUGE: Final = "x" * 20_000
_BROKER: Final = "broker killed"


class Faults(threading.Thread):
    """Injects faults until `end`. Everything runs again when `end` returns."""

    def __init__(
        self,
        fabric: Fabric,
        proxies: Mapping[str, Proxy],
        workers: Mapping[str, Callable[[], None]],
        seed: int,
        every: float,
    ) -> None:
        """Prepare; `workers` maps each worker's name to a function that starts it."""
        super().__init__(name="soak faults", daemon=True)
        self.counts: Counter[str] = Counter()
        self.error = ""
        self._fabric, self._proxies, self._workers = fabric, dict(proxies), dict(workers)
        self._random = random.Random(f"{seed} faults")
        self._every = every
        self._is_over = threading.Event()
        self._kinds: dict[str, Callable[[], None]] = {
            "worker killed": self.kill_a_worker,
            "wire cut": self.cut_a_wire,
            "worker stopped": self.stop_a_worker,
            "slow reader": self.read_slowly,
            _BROKER: self.kill_the_broker,
        }

    def run(self) -> None:
        """Inject each kind of fault in turn."""
        order: list[str] = []
        while not self._is_over.wait(self._every):
            if not order:
                order = self._random.sample(list(self._kinds), len(self._kinds))
            kind = order.pop()
            inject = self._kinds.get(kind)
            if inject is None:
                continue
            try:
                inject()
            except Exception as error:
                self.error = f"{kind}: {error}"
                return
            self.counts[kind] += 1

    def stop_broker_kills(self) -> None:
        """Stop killing the broker; other faults go on."""
        self._kinds.pop(_BROKER, None)

    def end(self) -> None:
        """Stop injecting faults."""
        self._is_over.set()
        self.join(120)

    def kill_a_worker(self) -> None:
        """Kill a worker with SIGKILL and start it again."""
        name = self._random.choice(list(self._workers))
        self._fabric.kill_worker(name)
        self._workers[name]()

    def kill_the_broker(self) -> None:
        """Kill the broker with SIGKILL and start it again on its ledger."""
        self._fabric.kill_broker()
        self._fabric.start_broker()

    def cut_a_wire(self) -> None:
        """Cut every connection of one link for a moment."""
        proxy = self._proxies[self._random.choice(list(self._proxies))]
        proxy.cut()
        time.sleep(_CUT)
        proxy.mend()

    def stop_a_worker(self) -> None:
        """Freeze a worker for a while."""
        name = self._random.choice(list(self._workers))
        self._fabric.signal_worker(name, signal.SIGSTOP)
        time.sleep(_FROZEN)
        self._fabric.signal_worker(name, signal.SIGCONT)

    def read_slowly(self) -> None:
        """Request much and read nothing for a while, over ZeroMQ and HTTP."""
        stream = _open_stream(self._fabric.endpoints["http"])
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        dealer = context.socket(zmq.DEALER)
        try:
            dealer.setsockopt(zmq.RCVHWM, 1)
            dealer.connect(self._fabric.endpoints["nfp"])
            for number in range(_UNREAD_JOBS):
                dealer.send_multipart(_post(f"slow-{time.time_ns()}-{number}"))
            time.sleep(_UNREAD)
        finally:
            context.destroy(linger=0)
            stream.close()


def _open_stream(endpoint: str) -> socket.socket:
    """Request all events and read none."""
    address = urlsplit(endpoint)
    stream = socket.create_connection((address.hostname or "", address.port or 0), 10)
    stream.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return stream


def _post(job: str) -> list[bytes]:
    body = b'{"task": "echo", "args": ["%s"], "kwargs": {}, "timeout": 60}' % _HUGE.encode()
    return [b"", b"NFPC01", b"0x04", b"soak-nfp", b"any", job.encode(), body]
