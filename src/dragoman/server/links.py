"""A link: a dialect's broker side on a transport. And all links of a broker together.

Links turn frames into events and effects into frames. A malformed message becomes a record. Links
make no decisions about jobs.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

import structlog

from dragoman.core.effects import (
    Dismiss,
    Effect,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import DeliveryFailed, Event, Noted
from dragoman.dialects.base import BrokerSide, MalformedMessage, Send, Subscribed
from dragoman.dialects.recognition import name_other_dialect
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, link_of, peer_id, text_of
from dragoman.model.record import Kind
from dragoman.security.gate import Gate
from dragoman.server.link_gate import LinkGate
from dragoman.server.oversized import refuse_oversized
from dragoman.server.rejections import Rejections
from dragoman.transports.base import OversizedFrame, Sent, Transport

log = structlog.get_logger("dragoman.links")

#: The receiver of an effect.
_PEER_OF: Final[dict[type, Callable[[object], PeerId]]] = {
    SendWork: attrgetter("worker"),
    SendInput: attrgetter("worker"),
    SendCancel: attrgetter("worker"),
    SendPoll: attrgetter("worker"),
    SendBeat: attrgetter("worker"),
    SendReply: attrgetter("client"),
    SendStatus: attrgetter("client"),
    Dismiss: attrgetter("peer"),
}
_PEERS: Final = 100_000
#: The link of the broker's own services.
BUILTIN: Final = "local"


def peer_of(effect: Effect) -> PeerId:
    """Return the peer that an effect is for."""
    return _PEER_OF[type(effect)](effect)


class Link:
    """One dialect on one transport."""

    def __init__(self, side: BrokerSide, transport: Transport, listener: str = "") -> None:
        self.name = side.link
        #: The name of its endpoint in the settings and the ready file.
        self.listener = listener or self.name
        self.side = side
        self.transport = transport
        #: Set while security is on: it checks every message of a peer.
        self.checkpoint: LinkGate | None = None
        self.endpoint = ""
        self._has_unflushed = False
        #: Returns the peer name of an address; a side with one address per request overrides it.
        self._speaker: Callable[[bytes], str] = getattr(side, "speaker", text_of)
        #: Messages in and out, and internal errors, since the start.
        self.received = 0
        self.sent = 0
        self._bugs = 0
        #: Other dialects whose messages arrived here, in words; as many as there are dialects.
        self._others: set[str] = set()

    @property
    def refused(self) -> dict[str, int]:
        """Connections its transport has refused, by reason."""
        return dict(getattr(self.transport, "trouble", {}))

    @property
    def connections(self) -> int:
        """Connections that its transport has open; 0 if it does not know."""
        return int(getattr(self.transport, "connection_count", 0))

    @property
    def internal_errors(self) -> int:
        """Internal errors since the start, with those of the transport."""
        return self._bugs + int(getattr(self.transport, "internal_errors", 0))

    def receive(self, limit: int, now: float) -> Iterator[Event | Send | Subscribed]:
        """Yield the events and answers of at most `limit` messages."""
        receive = (self.checkpoint or self.side).receive
        for address, frames in self.transport.drain(limit):
            self.received += 1
            try:
                # A link in memory may pass on messages that are no lists of frames.
                if type(frames) is list and frames and type(frames[-1]) is OversizedFrame:
                    yield from refuse_oversized(receive(address, frames, now), frames[-1])
                else:
                    yield from receive(address, frames, now)
            except MalformedMessage as error:
                peer = peer_id(self.name, self._speaker(address))
                yield Noted(Kind.REJECTED, peer, detail=self._rejection(str(error), frames))
            except Exception:
                # A bug must not stop the other peers; it is logged, counted and recorded.
                self._bugs += 1
                log.exception("internal error while reading a message", link=self.name)
                peer = peer_id(self.name, self._speaker(address))
                yield Noted(Kind.REJECTED, peer, detail="internal error; see the log")

    def _rejection(self, reason: str, frames: Sequence[bytes]) -> str:
        """Return why a message is rejected, with the dialect it is in if that is another one.

        The first message of each other dialect is logged: its peers have the wrong port.
        """
        other = name_other_dialect(self.listener, frames)
        if not other:
            return reason[:500]
        if other not in self._others:
            self._others.add(other)
            log.warning("a peer speaks another dialect", link=self.name, found=other)
        return f"{other}; {reason}"[:500]

    def render(self, effect: Effect, now: float) -> list[Event]:
        """Send an effect to its peer; return the failures."""
        try:
            sends = self.side.render(effect, now)
        except Unmappable as error:
            return [_unmappable(effect, str(error))]
        except Exception:
            self._bugs += 1
            log.exception("internal error while writing a message", link=self.name)
            return [_unmappable(effect, "internal error; see the log")]
        failed: list[Event] = []
        for send in sends:
            outcome = self.send(send)
            if outcome is not Sent.YES:
                failed.append(_undelivered(effect, outcome is Sent.GONE))
        return failed

    def send(self, send: Send) -> Sent:
        """Send one message of the side; it leaves with the next `flush`."""
        self.sent += 1
        self._has_unflushed = True
        return self.transport.send(send.address, send.frames)

    def flush(self) -> None:
        """Push out what was sent since the last flush, if anything was."""
        if self._has_unflushed:
            self._has_unflushed = False
            self.transport.flush()


def _unmappable(effect: Effect, message: str) -> DeliveryFailed:
    return _failed(effect, False, Fault(FaultCode.UNMAPPABLE, message))


def _undelivered(effect: Effect, is_gone: bool) -> DeliveryFailed:
    return _failed(effect, is_gone, None)


def _failed(effect: Effect, is_gone: bool, fault: Fault | None) -> DeliveryFailed:
    """Return the failed delivery; only undelivered work carries its attempt, to be requeued."""
    peer = peer_of(effect)
    if isinstance(effect, SendWork):
        return DeliveryFailed(peer, is_gone, effect.job, effect.attempt, fault)
    job = getattr(effect, "job", None)
    return DeliveryFailed(peer, is_gone, job, 0, fault)


class Links:
    """All links of a broker."""

    def __init__(self, links: list[Link]) -> None:
        self.by_name = {link.name: link for link in links}
        #: A cache of links by peer.
        self._of_peer: dict[PeerId, Link] = {}
        self.rejections = Rejections()
        self._traffic = asyncio.Event()
        #: Links that may have messages to drain, in the order they announced them.
        self._ready: dict[str, Link] = {}
        #: Links whose side was called since its deadline was read: all of them at first.
        self._touched = dict(self.by_name)
        #: When the side of a link is due, as it was last read; sides without a timer are not here.
        self._deadlines: dict[str, float] = {}

    async def open(self) -> None:
        """Open every link, in order."""
        for link in self.by_name.values():
            link.endpoint = await link.transport.open(partial(self.announce, link))
            self.announce(link)  # messages may have arrived before
            log.info("listening", link=link.name, endpoint=link.endpoint)

    def background_tasks(self) -> "list[asyncio.Task[None]]":
        """Return the background tasks of open transports."""
        found = (
            getattr(link.transport, "background_tasks", list) for link in self.by_name.values()
        )
        return [task for tasks in found for task in tasks()]

    def endpoints(self) -> dict[str, str]:
        """Return the endpoint of every link that peers can reach."""
        links = self.by_name.values()
        return {n.listener: n.endpoint for n in links if not n.endpoint.startswith("memory:")}

    async def traffic(self, at_most: float | None) -> None:
        """Wait for a message or the time limit; always let other tasks run."""
        traffic = self._traffic
        if traffic.is_set() or (at_most is not None and at_most <= 0):
            await asyncio.sleep(0)
        else:
            clock = asyncio.get_running_loop()
            timer = None if at_most is None else clock.call_later(at_most, traffic.set)
            await traffic.wait()
            if timer is not None:
                timer.cancel()
        traffic.clear()

    def secure(self, gate: Gate) -> None:
        """Check every message at the gate; built-in services bypass it."""
        for link in self.by_name.values():
            if link.name != BUILTIN:
                link.checkpoint = LinkGate(gate, link.side, link.transport)

    def disconnect_key(self, key: str) -> None:
        """Close every connection of a key, on transports that prove keys."""
        for link in self.by_name.values():
            cut = getattr(link.transport, "cut", None)
            if cut is not None:
                cut(key)

    def wake(self) -> None:
        """Make `traffic` return."""
        self._traffic.set()

    def announce(self, link: Link) -> None:
        """Have the next turn drain a link, and let `traffic` return."""
        self._ready[link.name] = link
        self._traffic.set()

    @property
    def has_ready(self) -> bool:
        """Whether a link may have messages to drain."""
        return bool(self._ready)

    def take_ready(self) -> list[Link]:
        """Return the links that may have messages; each is drained in this turn."""
        ready, self._ready = self._ready, {}
        self._touched.update(ready)
        return list(ready.values())

    def touch(self, link: Link) -> None:
        """Read the deadline of a link's side again: something called the side."""
        self._touched[link.name] = link

    def next_deadline(self) -> float | None:
        """Return when the earliest timer of a side is due; None: never."""
        touched, self._touched = self._touched, {}
        for link in touched.values():
            at = link.side.next_deadline()
            if at is None:
                self._deadlines.pop(link.name, None)
            else:
                self._deadlines[link.name] = at
        return min(self._deadlines.values(), default=None)

    def take_due(self, now: float) -> list[Link]:
        """Return the links whose side has a timer due; each is advanced in this turn."""
        self.next_deadline()
        due = [name for name, at in self._deadlines.items() if at <= now]
        links = [self.by_name[name] for name in sorted(due, key=self._deadlines.__getitem__)]
        for link in links:
            self.touch(link)
        return links

    def render(self, effect: Effect, now: float) -> list[Event]:
        """Send an effect through the link of its peer."""
        peer = _PEER_OF[type(effect)](effect)
        link = self._of_peer.get(peer)
        if link is None:
            link = self.by_name.get(link_of(peer))
            if link is None:
                return []
            if len(self._of_peer) >= _PEERS:
                self._of_peer.clear()
            self._of_peer[peer] = link
        self._touched[link.name] = link
        return link.render(effect, now)

    def flush(self) -> None:
        """Flush every transport."""
        for link in self.by_name.values():
            link.flush()

    async def close(self) -> None:
        """Close every link."""
        for link in self.by_name.values():
            await link.transport.close()
