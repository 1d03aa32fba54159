"""One link's place at the gate: each message is tied to who sent it, and what it means is judged.

What the gate refuses is said in the dialect's own way: by the core's answers, and where a side had
a yes on its lips already, by its `deny`. No decision is made here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dragoman.core.events import Event, EventDenied, Noted
from dragoman.dialects.base import Address, BrokerSide, Frames, Send, Subscribed
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, peer_id, text_of
from dragoman.model.record import Kind
from dragoman.security.gate import BUILTIN_KEY, Gate
from dragoman.security.speakers import PeerIdentity
from dragoman.server.rejections import Rejections
from dragoman.transports.base import Transport

Heard = Sequence[Event | Send | Subscribed]


class LinkGate:
    """Stands in for a side's `receive` while security is on."""

    def __init__(self, gate: Gate, side: BrokerSide, transport: Transport) -> None:
        self._gate = gate
        self._side = side
        self._refusals = Rejections()
        self._key_of: Callable[[Address], str] = getattr(transport, "key_of", lambda address: "")
        speaker: Callable[[Address], str] = getattr(side, "speaker", text_of)
        self._speaks_as: Callable[[Address, Frames], str] = getattr(
            side, "speaks_as", lambda address, frames: speaker(address)
        )
        self._deny = getattr(side, "deny", _keep)

    def receive(self, address: Address, frames: Frames, now: float) -> Heard:
        """Take one message in, and let through what may be."""
        # Without an address or without frames it is the transport that speaks, not a peer.
        key = self._key_of(address) if address and frames else BUILTIN_KEY
        if key == BUILTIN_KEY:
            if address:
                self._gate.house.add(peer_id(self._side.link, text_of(address)))
            return self._side.receive(address, frames, now)
        name = self._speaks_as(address, frames)
        if not name:  # an answer to a question of the broker's own, where only that was asked
            return self._side.receive(address, frames, now)
        peer = peer_id(self._side.link, name)
        who = self._gate.hear(key, peer, now)
        if isinstance(who, Noted):
            return self._thief(address, frames, who, now)
        return self._judged(address, frames, who, now)

    def _thief(self, address: Address, frames: Frames, noted: Noted, now: float) -> Heard:
        """Refuse who speaks in another's name; the side never hears what was said."""
        fault = Fault(FaultCode.DENIED, noted.detail)
        said: list[Event | Send | Subscribed] = [*self._deny(address, frames, None, fault, now)]
        if self._is_worth_a_record(noted.peer, now):
            said.append(noted)
        return said

    def _judged(self, address: Address, frames: Frames, who: PeerIdentity, now: float) -> Heard:
        heard = self._side.receive(address, frames, now)
        said: list[Event | Send | Subscribed] = []
        fault: Fault | None = None
        for item in heard:
            kind = type(item)
            if kind is Send:
                said.append(item)
                continue
            judged, why_not = self._judge(item, who, now)
            said += judged
            fault = fault or why_not
        if fault is None:
            return said
        sends = [item for item in said if type(item) is Send]
        others = [item for item in said if type(item) is not Send]
        return [*others, *self._deny(address, frames, sends, fault, now)]

    def _judge(
        self, item: Any, who: PeerIdentity, now: float
    ) -> tuple[list[Event | Subscribed], Fault | None]:
        """Return what becomes of one thing a side heard, and why not if it is refused."""
        if type(item) is Subscribed:
            return self._subscription(item, who, now)
        judged: list[Event | Subscribed] = []
        fault = None
        for event in self._gate.judge(item, who, now):
            if type(event) is EventDenied:
                fault = event.fault
                judged.append(self._bounded(event, now))
            else:
                judged.append(event)
        return judged, fault

    def _subscription(
        self, item: Subscribed, who: PeerIdentity, now: float
    ) -> tuple[list[Event | Subscribed], Fault | None]:
        if not item.topics:
            return [item], None
        noted = self._gate.may_subscribe(item.peer, who)
        if noted.kind == Kind.ALLOWED:
            return [noted, item], None
        fault = Fault(FaultCode.DENIED, noted.detail)
        return ([noted] if self._is_worth_a_record(item.peer, now) else []), fault

    def _bounded(self, refused: EventDenied, now: float) -> EventDenied:
        """Keep a flood of refusals off the record."""
        event: Any = refused.event
        peer = getattr(event, "client", None) or getattr(event, "worker", None) or event.peer
        if self._is_worth_a_record(peer, now):
            return refused
        return replace(refused, is_recorded=False)

    def _is_worth_a_record(self, peer: PeerId | None, now: float) -> bool:
        return peer is not None and self._refusals.is_worth_a_record(peer, now)


def _keep(
    address: Address, frames: Frames, sends: list[Send] | None, fault: Fault, now: float
) -> list[Send]:
    """Let a side's own answers stand: the refusal is in the core's answer beside them."""
    return sends or []
