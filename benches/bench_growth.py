"""Whether a request becomes dearer with the number of workers, clients, services or queued jobs.

Each case is measured beside a small one in turns, so that a busy machine disturbs both alike. The
figure is the ratio of their CPU times: 1.00 means that a request costs the same.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import TypeAlias

from benches.counted import ANSWER, QUESTION

from dragoman.cli.up import tune_garbage_collector
from dragoman.core.broker import Broker
from dragoman.core.effects import SendWork
from dragoman.core.events import JobSubmitted, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.core.limits import Limits
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.terms import Terms

Row: TypeAlias = tuple[str, float, str]

#: Requests of one turn, and how often the small and the large case take turns.
REQUESTS = 500
TURNS = 9


class World:
    """A broker with peers and queued jobs, and the next request and reply in it."""

    def __init__(self, workers: int = 10, clients: int = 1, services: int = 1, queued: int = 0):
        self._broker = Broker(limits=Limits(queued_jobs=queued + 100_000, queued_bytes=10**12))
        self._clients, self._services, self._next = clients, services, 0
        for number in range(max(workers, services)):
            self._join(number)
        self._working: list[SendWork] = []
        # With jobs in the queue every worker is busy: each has room for one job.
        for _ in range(queued + (max(workers, services) if queued else 0)):
            self._working += self._submit()

    def _join(self, number: int) -> None:
        name = WorkerName(f"w{number}")
        service = ServiceName(f"s{number % self._services}")
        joined = WorkerJoined(
            PeerId(f"nfp/{name}"), name, (service,), credit=1, credit_returns=True, beat_every=2.5
        )
        self._broker.handle(joined, 1.0)

    def _submit(self) -> list[SendWork]:
        self._next += 1
        client = PeerId(f"nfp/c{self._next % self._clients}")
        service = ServiceName(f"s{self._next % self._services}")
        # A queued job waits for its own time only: nothing may expire during the bench.
        terms = Terms(patience=1e6, timeout=1e6)
        event = JobSubmitted(JobId(f"job-{self._next}"), client, service, QUESTION, terms=terms)
        return [e for e in self._broker.handle(event, 1.0) if type(e) is SendWork]

    def turn(self, requests: int) -> float:
        """Handle so many requests and as many replies; return the CPU time of one, in us."""
        began = time.process_time()
        for _ in range(requests):
            self._working += self._submit()
            work = self._working.pop(0)
            reply = ReplyReceived(
                work.worker, work.job, ReplyKind.FINAL, ANSWER, None, work.attempt
            )
            self._working += [e for e in self._broker.handle(reply, 1.0) if type(e) is SendWork]
        return (time.process_time() - began) / requests * 1e6


CASES: tuple[tuple[str, Callable[[], World]], ...] = (
    ("100 workers", lambda: World(workers=100)),
    ("2,000 workers", lambda: World(workers=2000)),
    ("100 clients", lambda: World(clients=100)),
    ("2,000 clients", lambda: World(clients=2000)),
    ("100 services", lambda: World(services=100)),
    ("1,000 services", lambda: World(services=1000)),
    ("10,000 jobs wait, of 100 clients", lambda: World(clients=100, queued=10_000)),
    ("1,000,000 jobs wait, of 100 clients", lambda: World(clients=100, queued=1_000_000)),
)


def run(requests: int = REQUESTS, turns: int = TURNS) -> list[Row]:
    """Measure every case beside 10 workers, 1 client, 1 service and an empty queue."""
    tune_garbage_collector()
    rows = []
    for name, make in CASES:
        small, large = World(), make()
        pairs = [(small.turn(requests), large.turn(requests)) for _ in range(turns)]
        rows.append((name, median(b / a for a, b in pairs), "of a small broker's CPU"))
    return rows
