"""Links: frames become events, effects become frames, and a bug stops no other peer."""

import asyncio
from collections.abc import Sequence

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendReply, SendWork
from dragoman.core.events import DeliveryFailed, Event, Noted, PeerLeft, ReplyKind
from dragoman.dialects.base import Address, Frames, MalformedMessage, Send
from dragoman.model.body import EMPTY
from dragoman.model.content import Unmappable
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind
from dragoman.server.links import Link, Links
from dragoman.transports.memory import MemoryHub

WORKER = PeerId("odd/w")
WORK = SendWork(WORKER, JobId("j"), 3, ServiceName("s"), PeerId("odd/c"), EMPTY)


class OddSide:
    """A side that does what its messages say."""

    link = "odd"

    def receive(self, address: Address, frames: Frames, now: float) -> Sequence[Event | Send]:
        if frames[0] == b"malformed":
            raise MalformedMessage("not readable")
        if frames[0] == b"bug":
            raise ZeroDivisionError
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


def test_a_malformed_message_becomes_a_record_and_the_next_one_is_read() -> None:
    link, hub = make()
    for word in (b"malformed", b"bug", b"fine"):
        hub.connect(b"p").say([word])
    heard = list(link.receive(10, 1.0))
    assert [type(item) for item in heard] == [Noted, Noted, PeerLeft]
    assert all(item.kind is Kind.REJECTED for item in heard if isinstance(item, Noted))
    assert link.internal_errors == 1


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
        assert links.render(SendBeat(PeerId("gone/w")), 1.0) == []
        assert links.next_deadline() == 5.0
        assert links.endpoints() == {}
        links.wake()
        await links.traffic(None)
        await links.traffic(0.0)
        await links.close()

    asyncio.run(scenario())
