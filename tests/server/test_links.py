"""Links: frames become events, effects become frames, and a bug stops no other peer."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendReply, SendWork
from dragoman.core.events import (
    DeliveryFailed,
    Event,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
)
from dragoman.dialects.base import Address, Frames, MalformedMessage, Send
from dragoman.model.body import EMPTY
from dragoman.model.content import Unmappable
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind
from dragoman.security.gate import Gate
from dragoman.security.policy_text import read_policy
from dragoman.security.registry_data import RegistryData
from dragoman.server.links import BUILTIN, Link, Links
from dragoman.testing.pass_through_side import PassThroughSide
from dragoman.transports.base import OversizedFrame
from dragoman.transports.memory import MemoryHub

WORKER = PeerId("odd/w")
WORK = SendWork(WORKER, JobId("j"), 3, ServiceName("s"), PeerId("odd/c"), EMPTY)


class OddSide:
    """A side that does what its messages say."""

    link = "odd"

    def receive(self, address: Address, frames: Frames, now: float) -> Sequence[Event | Send]:
        if frames[0] == b"malformed":
            raise MalformedMessage("not readable" * 100)
        if frames[0] == b"bug":
            raise ZeroDivisionError
        if frames[0] == b"result":
            return [ReplyReceived(WORKER, JobId("j"), ReplyKind.FINAL)]
        return [PeerLeft(PeerId("odd/w"), "bye")]

    def render(self, effect: Effect, now: float) -> list[Send]:
        if isinstance(effect, SendBeat):
            raise ZeroDivisionError
        if isinstance(effect, Dismiss):
            raise Unmappable("no form for this")
        return [Send(b"w", [b"x"])]

    def advance(self, now: float) -> list[Event | Send]:
        return []

    def next_deadline(self) -> float | None:
        return 5.0


def make() -> tuple[Link, MemoryHub]:
    hub = MemoryHub(bound=1)
    return Link(OddSide(), hub), hub


def test_a_link_that_is_not_open_has_no_endpoint() -> None:
    assert Link(OddSide(), MemoryHub()).endpoint == ""


def test_a_malformed_message_becomes_a_record_and_the_next_one_is_read() -> None:
    link, hub = make()
    for word in (b"malformed", b"bug", b"fine"):
        hub.connect(b"p").say([word])
    heard = list(link.receive(10, 1.0))
    assert [type(item) for item in heard] == [Noted, Noted, PeerLeft]
    assert all(item.kind is Kind.REJECTED for item in heard if isinstance(item, Noted))
    assert heard[0] == Noted(Kind.REJECTED, PeerId("odd/p"), detail=("not readable" * 100)[:500])
    assert heard[1] == Noted(Kind.REJECTED, PeerId("odd/p"), detail="internal error; see the log")
    assert (link.received, link.sent, link.internal_errors) == (3, 0, 1)


def test_a_message_without_its_oversized_frame_loses_its_content() -> None:
    link, hub = make()
    hub.connect(b"p").say([b"result", OversizedFrame.make(70, 64)])
    (heard,) = link.receive(10, 1.0)
    assert isinstance(heard, ReplyReceived)
    assert heard.fault is not None
    assert heard.fault.code is FaultCode.TOO_LARGE


def test_a_message_of_another_dialect_is_named_in_the_record_and_once_in_the_log() -> None:
    link, hub = make()
    with capture_logs() as logs:
        for _ in range(2):
            hub.connect(b"p").say([b"malformed", b"NFPC01", b"x"])
            (noted,) = link.receive(10, 1.0)
    assert isinstance(noted, Noted)
    assert noted.detail.startswith("this is a message of nfp, whose usual port is 5555; not read")
    assert [(line["link"], line["found"]) for line in logs] == [
        ("odd", "this is a message of nfp, whose usual port is 5555")
    ]


def test_undelivered_work_comes_back_as_an_event() -> None:
    link, hub = make()
    assert link.render(WORK, 1.0) == [DeliveryFailed(WORKER, True, JobId("j"), 3)]
    hub.connect(b"w")
    assert link.render(WORK, 1.0) == []
    assert link.render(WORK, 1.0) == [DeliveryFailed(WORKER, False, JobId("j"), 3)]


def test_an_undelivered_reply_is_recorded_and_requeues_nothing() -> None:
    link, _ = make()
    reply = SendReply(PeerId("odd/c"), JobId("j"), ReplyKind.FINAL, ServiceName("s"))
    assert link.render(reply, 1.0) == [DeliveryFailed(PeerId("odd/c"), True, JobId("j"), 0)]


def test_an_unmappable_effect_and_a_bug_are_faults() -> None:
    link, _ = make()
    for effect in (Dismiss(WORKER, ""), SendBeat(WORKER)):
        (failed,) = link.render(effect, 1.0)
        assert isinstance(failed, DeliveryFailed)
        assert failed.fault is not None
        assert failed.fault.code is FaultCode.UNMAPPABLE


def test_effects_go_to_the_peers_link_and_those_of_closed_links_are_dropped() -> None:
    async def scenario() -> None:
        link, hub = make()
        links = Links([link])
        await links.open()
        peer = hub.connect(b"w")
        assert links.render(WORK, 1.0) == []
        assert len(peer.inbox) == 1
        assert link.sent == 1
        assert links.render(SendBeat(PeerId("gone/w")), 1.0) == []
        assert links.next_deadline() == 5.0
        assert links.endpoints() == {}
        links.wake()
        await links.traffic(None)
        await links.traffic(0.0)
        await links.close()

    asyncio.run(scenario())


def test_links_of_peers_that_are_kept_at_hand_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.server.links._PEERS", 2)
    link, _ = make()
    links = Links([link])
    for n in range(7):
        links.render(SendBeat(PeerId(f"{link.name}/w{n}")), 1.0)
        assert len(links._of_peer) <= 2


class TimedSide(OddSide):
    """A side whose deadline the test sets."""

    def __init__(self, name: str) -> None:
        self.link = name
        self.due: float | None = None
        self.asked = 0

    def next_deadline(self) -> float | None:
        self.asked += 1
        return self.due


def timed(*names: str) -> tuple[Links, list[TimedSide]]:
    sides = [TimedSide(name) for name in names]
    return Links([Link(side, MemoryHub()) for side in sides]), sides


def test_the_earliest_deadline_of_all_sides_is_next_and_only_due_links_advance() -> None:
    links, (one, two, three) = timed("one", "two", "three")
    one.due, two.due = 7.0, 5.0
    assert links.next_deadline() == 5.0
    assert [link.name for link in links.take_due(4.9)] == []
    assert [link.name for link in links.take_due(5.0)] == ["two"]
    assert [link.name for link in links.take_due(9.0)] == ["two", "one"]
    assert three.asked == 1


def test_a_deadline_that_changed_replaces_the_old_one() -> None:
    links, (one, two) = timed("one", "two")
    one.due, two.due = 5.0, 8.0
    assert links.next_deadline() == 5.0
    one.due = 9.0
    assert links.next_deadline() == 5.0, "the side was not called since"
    links.touch(links.by_name["one"])
    assert links.next_deadline() == 8.0
    one.due = 5.0
    links.touch(links.by_name["one"])
    assert links.next_deadline() == 5.0
    one.due = two.due = None
    links.touch(links.by_name["one"])
    links.touch(links.by_name["two"])
    assert links.next_deadline() is None
    assert links.take_due(100.0) == []


def test_a_side_that_renders_or_receives_is_asked_for_its_deadline_again() -> None:
    links, (one,) = timed("one")
    assert links.next_deadline() is None
    one.due = 3.0
    links.render(SendReply(PeerId("one/c"), JobId("j"), ReplyKind.QUEUED, ServiceName("s")), 1.0)
    assert links.next_deadline() == 3.0
    one.due = 2.0
    links.announce(links.by_name["one"])
    assert links.has_ready
    assert [link.name for link in links.take_ready()] == ["one"]
    assert links.take_ready() == []
    assert links.next_deadline() == 2.0


def test_deadlines_that_change_often_do_not_pile_up() -> None:
    links, (one,) = timed("one")
    for n in range(10_000):
        one.due = 10_000.0 - n
        links.touch(links.by_name["one"])
        assert links.next_deadline() == one.due
    assert links._deadlines == {"one": one.due}


def test_only_links_that_sent_something_are_flushed() -> None:
    class CountingHub(MemoryHub):
        flushes = 0

        def flush(self) -> None:
            self.flushes += 1

    hub = CountingHub()
    links = Links([Link(OddSide(), hub)])
    links.flush()
    assert hub.flushes == 0
    links.by_name["odd"].send(Send(b"w", [b"x"]))
    links.flush()
    links.flush()
    assert hub.flushes == 1


def test_messages_that_came_before_a_link_opened_are_drained() -> None:
    async def scenario() -> None:
        link, hub = make()
        links = Links([link])
        hub.connect(b"p").say([b"fine"])
        await links.open()
        assert links.take_ready() == [link]
        hub.connect(b"p").say([b"fine"])
        assert links.take_ready() == [link]
        await links.traffic(None)

    asyncio.run(scenario())


def test_waiting_for_traffic_ends_with_traffic_or_with_its_time() -> None:
    async def scenario() -> None:
        link, hub = make()
        links = Links([link])
        await links.open()
        await links.traffic(None)
        waiting = asyncio.create_task(links.traffic(None))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        hub.connect(b"p").say([b"fine"])
        await waiting
        waiting = asyncio.create_task(links.traffic(0.9))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        links.wake()
        await waiting
        await links.traffic(0.001)
        await links.traffic(-1.0)

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_cutting_a_key_cuts_its_connections_where_connections_have_keys() -> None:
    class KeyedHub(MemoryHub):
        def __init__(self) -> None:
            super().__init__()
            self.was_cut: list[str] = []

        def cut(self, key: str) -> None:
            self.was_cut.append(key)

    hub = KeyedHub()
    links = Links([Link(TimedSide("one"), hub), Link(TimedSide("two"), MemoryHub())])
    links.disconnect_key("curve:k")
    assert hub.was_cut == ["curve:k"]


def test_every_link_but_that_of_the_built_in_services_is_checked_at_the_gate() -> None:
    data = RegistryData()
    gate = Gate(data, read_policy(""), owner_of=lambda job: None)
    links = Links([Link(TimedSide(name), MemoryHub()) for name in ("nfp", BUILTIN, "dcp")])
    links.secure(gate)
    unchecked = [name for name, link in links.by_name.items() if link.checkpoint is None]
    assert unchecked == [BUILTIN]


def test_a_listener_has_its_own_name_and_only_reachable_endpoints_are_published() -> None:
    named, plain = Link(TimedSide("ncl"), MemoryHub(), "nats"), Link(TimedSide("nfp"), MemoryHub())
    hidden = Link(TimedSide("local"), MemoryHub())
    named.endpoint, plain.endpoint, hidden.endpoint = "nats://a:1", "tcp://a:2", "memory://"
    assert Links([named, plain, hidden]).endpoints() == {"nats": "nats://a:1", "nfp": "tcp://a:2"}


def test_a_link_in_memory_may_pass_on_a_message_that_is_no_list() -> None:
    event = PeerLeft(WORKER, "bye")
    side: Any = PassThroughSide()
    link = Link(side, OneMessage(event))
    assert list(link.receive(10, 1.0)) == [event]
    assert link.internal_errors == 0


class OneMessage(MemoryHub):
    """A transport of the simulation: its message is an event."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self._event: Any = event

    def drain(self, limit: int) -> Iterator[tuple[bytes, list[bytes]]]:
        yield b"w", self._event
