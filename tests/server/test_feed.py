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


class House:
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
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(feeds, "PIECE", 2)
    return House()


def test_a_subscriber_from_the_start_gets_the_past_in_pieces_and_then_the_present(
    house: House,
) -> None:
    house.write("a", "b", "c", "d", "e")
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), 0, "t"))
    house.turn()
    house.write("f")
    house.turn()
    assert house.seen() == [1, 2, 3, 4, 5, 6]
    assert house.peer.inbox[0][1] == b"b"


def test_a_negative_position_means_from_now_on(house: House) -> None:
    house.write("a")
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), -1, "t"))
    house.turn()
    house.write("b")
    assert house.seen() == [2]


def test_only_topics_that_match_are_sent(house: House) -> None:
    house.feed.subscribe(house.link, Subscribed(PEER, ("alarm.*",), 0, "t"))
    house.turn()
    house.write("alarm.fire", "news", "alarm.flood")
    assert house.seen() == [1, 3]


def test_the_same_tag_replaces_and_no_topics_end_a_subscription(house: House) -> None:
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), 0, "t"))
    house.feed.subscribe(house.link, Subscribed(PEER, ("x",), 0, "t"))
    assert len(house.feed) == 1
    house.feed.subscribe(house.link, Subscribed(PEER, (), 0, "t"))
    assert len(house.feed) == 0
    house.write("x")
    assert house.seen() == []


def test_a_subscriber_that_is_gone_or_full_is_let_go() -> None:
    house = House(bound=1)
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), 0, "t"))
    house.turn()
    house.write("a", "b")
    assert len(house.feed) == 0
    assert house.seen() == [1]


def test_who_asks_for_what_retention_has_removed_gets_the_oldest_that_is_kept(
    house: House,
) -> None:
    house.write("a", "b", "c", "d")
    asyncio.run(house.ledger.retain(keep_records=2))
    assert house.ledger.first_seq == 3
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), 1, "t"))
    house.turn()
    assert house.seen() == [3, 4]


def test_a_subscriber_sees_only_what_it_may_and_misses_nothing_of_that(house: House) -> None:
    house.feed.sees = lambda peer, record: peer == PEER and record.seq % 2 == 0
    house.write("a", "b", "c")
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), 0))
    house.turn()
    house.write("d", "e", "f")
    assert house.seen() == [2, 4, 6]


def test_subscriptions_of_peers_that_are_cut_off_end(house: House) -> None:
    house.feed.subscribe(house.link, Subscribed(PEER, ("*",), 0))
    house.feed.subscribe(house.link, Subscribed(PeerId("odd/other"), ("*",), 0))
    house.feed.forget([PEER])
    assert len(house.feed) == 1
