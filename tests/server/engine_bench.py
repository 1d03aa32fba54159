"""An engine with a side and a transport that the tests of the engine drive by hand."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.events import (
    Event,
)
from dragoman.dialects.base import Send, Subscribed
from dragoman.ledger.memory import MemoryLedger
from dragoman.server.archive import Archive
from dragoman.server.engine import (
    BrokerEngine,
)
from dragoman.server.links import Link, Links
from dragoman.server.service_terms import ServiceTerms
from dragoman.testing.pass_through_side import PassThroughSide
from dragoman.transports.base import Sent

ACK = Send(b"peer", (b"ack",), is_strict=True)
NOW = 1000.0


class Side(PassThroughSide):
    """Passes on whatever arrives; advances when the test says so."""

    def __init__(self) -> None:
        self.due: float | None = None
        self.advanced: list[float] = []
        self.asked = 0

    def receive(self, address: Any, message: Any, now: float) -> Any:
        return message

    def advance(self, now: float) -> Any:
        self.advanced.append(now)
        self.due = None
        return [ACK]

    def next_deadline(self) -> float | None:
        self.asked += 1
        return self.due


class Wire:
    """A transport that keeps everything: what is to be drained, what was sent and flushed."""

    def __init__(self) -> None:
        self.inbox: deque[tuple[bytes, Any]] = deque()
        self.sent: list[Any] = []
        self.flushed = 0
        self.drained = 0
        self.outcome = Sent.YES

    def drain(self, limit: int) -> Iterator[tuple[bytes, Any]]:
        self.drained += 1
        while self.inbox:
            yield self.inbox.popleft()

    def send(self, address: Any, frames: Any) -> Sent:
        self.sent.append(frames)
        return self.outcome

    def flush(self) -> None:
        self.flushed = len(self.sent)

    async def open(self, wake: Any) -> str:
        return ""

    async def close(self) -> None:
        pass


class Bench:
    def __init__(self, terms: ServiceTerms | None = None) -> None:
        self.side, self.wire = Side(), Wire()
        self.links = Links([Link(self.side, self.wire)])
        self.link = self.links.by_name["local"]
        self.ledger = MemoryLedger()
        self.engine = BrokerEngine(Broker(), self.links, Archive(self.ledger), terms)

    def turn(self, *items: Event | Send | Subscribed, now: float = NOW) -> list[Any]:
        """Let the side return items in one turn; return what was sent meanwhile."""
        self.wire.inbox.append((b"peer", items))
        self.links.announce(self.link)
        self.wire.sent.clear()
        self.engine.turn(now)
        return list(self.wire.sent)

    def begin(self) -> list[str]:
        entries = self.engine.begin_write()
        self.ledger.write(entries)
        return [entry.record.kind for entry in entries]

    def end(self) -> list[Any]:
        self.ledger.sync()
        self.wire.sent.clear()
        self.engine.end_write(NOW)
        assert self.wire.flushed == len(self.wire.sent), "sent, but not flushed"
        return list(self.wire.sent)

    def write(self) -> list[Any]:
        self.begin()
        return self.end()


def kinds(sent: Sequence[Any]) -> list[str]:
    return [type(each).__name__ for each in sent]


def jobs(sent: Sequence[Any]) -> list[str]:
    return [each.job for each in sent]
