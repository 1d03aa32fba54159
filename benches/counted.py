"""`python -m benches.counted NAME COUNT`: do one thing so many times, for `scripts/check_bench.py`.

Nothing here waits or starts a thread: the count of instructions must repeat.
"""

import sys
import time
from collections.abc import Callable
from typing import Final

from dragoman.core.broker import Broker
from dragoman.core.effects import SendWork
from dragoman.core.events import JobSubmitted, ReplyKind, ReplyReceived, WorkerJoined
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.rows import linker, to_rows
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms
from dragoman.server.archive import Archive
from dragoman.server.engine import BrokerEngine
from dragoman.server.job_statistics import JobStatistics
from dragoman.server.links import Link, Links
from dragoman.server.service_terms import ServiceTerms
from dragoman.transports.memory import MemoryHub, MemoryPeer

SERVICE, CLIENT = ServiceName("a"), PeerId("nfp/c1")
QUESTION, ANSWER = Body("nfp", (b"x" * 200,)), Body("nfp", (b"y" * 200,))


def request_and_reply(requests: int, backlog: int) -> float:
    """Return the time of one request and its reply; each has its own terms, as on the wire."""
    broker = Broker()
    credit = 25 if backlog else 100
    for n in range(4):
        broker.handle(_joined(n, credit), 1.0)
    given = [e for n in range(backlog and backlog + 100) for e in _submit(broker, f"before-{n}")]
    working = [e for e in given if isinstance(e, SendWork)]
    started = time.process_time()
    for n in range(requests):
        working += [e for e in _submit(broker, f"job-{n}") if type(e) is SendWork]
        work = working.pop()
        reply = ReplyReceived(work.worker, work.job, ReplyKind.FINAL, ANSWER, None, work.attempt)
        working += [e for e in broker.handle(reply, 1.0) if type(e) is SendWork]
    return (time.process_time() - started) / requests * 1e6


def _joined(number: int, credit: int) -> WorkerJoined:
    name = WorkerName(f"w{number}")
    return WorkerJoined(
        PeerId(f"nfp/{name}"), name, (SERVICE,), credit=credit, credit_returns=True, beat_every=2.5
    )


def _submit(broker: Broker, job: str) -> list[object]:
    terms = Terms(patience=0.0, timeout=600.0)
    event = JobSubmitted(JobId(job), CLIENT, SERVICE, QUESTION, terms=terms)
    return list(broker.handle(event, 1.0))


def core(count: int) -> None:
    """Handle requests and their replies; a worker is free."""
    request_and_reply(count, 0)


def core_with_a_queue(count: int) -> None:
    """Do the same while a hundred jobs wait."""
    request_and_reply(count, 100)


def ledger_rows(count: int) -> None:
    """Make the rows and links of records, fifty at a time, as an append does."""
    link, last = linker(), b""
    for first in range(0, count, 50):
        numbers = range(first + 1, first + 51)
        records = [Record(n, 1.0, Kind.SUBMITTED, service=SERVICE) for n in numbers]
        for _, raw in to_rows(records):
            last = link(raw, last)


class NfpBroker:
    """An NFP link, the engine and the core, on a transport in memory and without a disk."""

    POST: Final = b'{"task":"noop","kwargs":{},"args":[],"timeout":60}'
    RESULT: Final = b'{"w":{"result":1,"failed":false,"errors":[],"status":"completed"}}'
    #: Messages of one turn; their records share a write.
    TOGETHER: Final = 20

    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.links = Links([Link(NfpBrokerSide(), self.hub)])
        self.link = self.links.by_name["nfp"]
        terms = ServiceTerms({}, relaxed=("mmi.service.broker",))
        self.engine = BrokerEngine(Broker(), self.links, Archive(MemoryLedger()), terms)
        self.engine.listeners.append(JobStatistics().durable)
        self._jobs = 0

    def connect(self, name: str, *first: bytes) -> MemoryPeer:
        """Connect a peer that begins with a message."""
        peer = self.hub.connect(name.encode())
        peer.say((b"", *first))
        self.turn()
        peer.inbox.clear()
        return peer

    def post(self, client: MemoryPeer, service: bytes) -> None:
        """Let a client post a job."""
        self._jobs += 1
        client.say(
            (b"", wire.CLIENT, b"0x04", service, b"any", b"job-%024d" % self._jobs, self.POST)
        )

    def turn(self) -> None:
        """Handle what has arrived, and what that entails; take the records as written."""
        self.links.announce(self.link)
        self.engine.turn(1.0)
        self.engine.next_due()
        if self.engine.begin_write():
            self.engine.end_write(1.0)


def nfp_accept(count: int) -> None:
    """Accept jobs of many clients; no worker is there."""
    broker = NfpBroker()
    clients = [
        broker.connect(f"c{n}", wire.CLIENT, b"0x00", b'{"push":true}')
        for n in range(broker.TOGETHER)
    ]
    for _ in range(0, count, broker.TOGETHER):
        for client in clients:
            broker.post(client, b"nobody")
        broker.turn()
        for client in clients:
            assert client.inbox.pop()[5] == b"202"


def nfp_request(count: int) -> None:
    """Take requests of one client to workers, and the results back."""
    broker = NfpBroker()
    client = broker.connect("c0", wire.CLIENT, b"0x00", b'{"push":true}')
    workers = [
        broker.connect(f"w{n}", wire.WORKER, b"0x01", b"bench") for n in range(broker.TOGETHER)
    ]
    for _ in range(0, count, broker.TOGETHER):
        for _ in range(broker.TOGETHER):
            broker.post(client, b"bench")
        broker.turn()
        for worker in workers:
            while worker.inbox:
                task = worker.inbox.popleft()
                worker.say(
                    (b"", wire.WORKER, b"0x05", task[3], b"", task[5], b"200", broker.RESULT)
                )
        broker.turn()
        statuses = [frames[5] for frames in client.inbox]
        assert statuses.count(b"200") == broker.TOGETHER, statuses
        client.inbox.clear()


WORKLOADS: Final[dict[str, Callable[[int], None]]] = {
    "core": core,
    "core, 100 jobs wait": core_with_a_queue,
    "NFP accept": nfp_accept,
    "NFP request and result": nfp_request,
    "ledger row": ledger_rows,
}

if __name__ == "__main__":
    WORKLOADS[sys.argv[1]](int(sys.argv[2]))
