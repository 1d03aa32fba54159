"""Subscribers get the ledger from where they want, then live; nothing twice, all in order."""

import asyncio

import pytest

from dragoman.core.effects import Effect
from dragoman.core.events import Event
from dragoman.dialects.base import Address, Frames, Send, Subscribed
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.body import Body
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record
from dragoman.server import feed as feeds
from dragoman.server.feed import EventFeed
from dragoman.server.links import Link, Links
from dragoman.transports.memory import MemoryHub

PEER = PeerId("odd/p")


class TellingSide:
    """A side that offers events as their number."""

    link = "odd"

    def receive(self, address: Address, frames: Frames, now: float) -> list[Event | Send]:
        return []

    def render(self, effect: Effect, now: float) -> list[Send]:
        return []

    def render_event(self, wish: Subscribed, record: Record, body: Body | None) -> list[Send]:
        return [Send(b"p", [str(record.seq).encode(), body.parts[0] if body else b""])]

    def advance(self, now: float) -> list[Event | Send]:
        return []

    def next_deadline(self) -> float | None:
        return None


class FeedSetup:
    def __init__(self, bound: int = 10_000) -> None:
        self.ledger = MemoryLedger()
        self.hub = MemoryHub(bound)
        self.peer = self.hub.connect(b"p")
        self.link = Link(TellingSide(), self.hub)
        self.feed = EventFeed(self.ledger, Links([self.link]))

    def write(self, *details: str) -> None:
        first = self.ledger.last_seq + 1
        entries = [
            Entry(Record(first + n, 1.0, Kind.PUBLISHED, detail=d, nbytes=1), Body("x", (b"b",)))
            for n, d in enumerate(details)
        ]
        asyncio.run(self.ledger.append(entries))
        self.feed.publish(entries)

    def turn(self) -> None:
        while self.feed.next_turn() is not None:
            pass

    def seen(self) -> list[int]:
        return [int(frames[0]) for frames in self.peer.inbox]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> FeedSetup:
    monkeypatch.setattr(feeds, "PIECE", 2)
    return FeedSetup()


def test_a_subscriber_from_the_start_gets_old_records_in_pieces_and_then_new_ones(
    setup: FeedSetup,
) -> None:
    setup.write("a", "b", "c", "d", "e")
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), 0, "t"))
    setup.turn()
    setup.write("f")
    setup.turn()
    assert setup.seen() == [1, 2, 3, 4, 5, 6]
    assert setup.peer.inbox[0][1] == b"b"


def test_a_negative_position_means_from_now_on(setup: FeedSetup) -> None:
    setup.write("a")
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), -1, "t"))
    setup.turn()
    setup.write("b")
    assert setup.seen() == [2]


def test_only_topics_that_match_are_sent(setup: FeedSetup) -> None:
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("alarm.*",), 0, "t"))
    setup.turn()
    setup.write("alarm.fire", "news", "alarm.flood")
    assert setup.seen() == [1, 3]


def test_the_same_tag_replaces_and_no_topics_end_a_subscription(setup: FeedSetup) -> None:
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), 0, "t"))
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("x",), 0, "t"))
    assert len(setup.feed) == 1
    setup.feed.subscribe(setup.link, Subscribed(PEER, (), 0, "t"))
    assert len(setup.feed) == 0
    setup.write("x")
    assert setup.seen() == []


def test_a_subscriber_that_is_gone_or_full_is_dropped() -> None:
    setup = FeedSetup(bound=1)
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), 0, "t"))
    setup.turn()
    setup.write("a", "b")
    assert len(setup.feed) == 0
    assert setup.seen() == [1]


def test_a_position_that_retention_has_removed_starts_at_the_oldest_record(
    setup: FeedSetup,
) -> None:
    setup.write("a", "b", "c", "d")
    asyncio.run(setup.ledger.retain(keep_records=2))
    assert setup.ledger.first_seq == 3
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), 1, "t"))
    setup.turn()
    assert setup.seen() == [3, 4]


def test_a_subscriber_gets_every_record_it_may_see_and_no_other(setup: FeedSetup) -> None:
    setup.feed.may_see = lambda peer, record: peer == PEER and record.seq % 2 == 0
    setup.write("a", "b", "c")
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), 0))
    setup.turn()
    setup.write("d", "e", "f")
    assert setup.seen() == [2, 4, 6]


def test_subscriptions_of_disconnected_peers_end(setup: FeedSetup) -> None:
    setup.feed.subscribe(setup.link, Subscribed(PEER, ("*",), 0))
    setup.feed.subscribe(setup.link, Subscribed(PeerId("odd/other"), ("*",), 0))
    setup.feed.forget([PEER])
    assert len(setup.feed) == 1
