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
from dragoman.ledger.rows import linker, to_rows
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms

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


WORKLOADS: Final[dict[str, Callable[[int], None]]] = {
    "core": core,
    "core, 100 jobs wait": core_with_a_queue,
    "ledger row": ledger_rows,
}

if __name__ == "__main__":
    WORKLOADS[sys.argv[1]](int(sys.argv[2]))
