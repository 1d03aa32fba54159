"""The gate of one link: it finds the identity behind each message, and checks its events.

A refusal reaches the peer in the dialect's own form: as the core's answer, or by the side's `deny`
if the side has already made a positive answer. The decisions are the gate's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dragoman.core.events import Event, EventDenied, Noted
from dragoman.dialects.base import Address, BrokerSide, Frames, Send, Subscribed
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, peer_id, text_of
from dragoman.model.record import Kind
from dragoman.security.gate import Gate
from dragoman.security.identities import PeerIdentity
from dragoman.server.rejections import Rejections
from dragoman.transports.base import Transport

Received = Sequence[Event | Send | Subscribed]


class LinkGate:
    """Replaces a side's `receive` while security is on."""

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

    def receive(self, address: Address, frames: Frames, now: float) -> Received:
        """Decode one message, and return the events and answers that are allowed."""
        # A message without an address or frames comes from the transport, not from a peer. One
        # without a name is an answer to a request of the broker itself.
        name = self._speaks_as(address, frames) if address and frames else ""
        if not name:
            return self._side.receive(address, frames, now)
        identity = self._gate.identify(self._key_of(address), peer_id(self._side.link, name), now)
        if isinstance(identity, Noted):
            return self._refuse_takeover(address, frames, identity, now)
        return self._checked(address, frames, identity, now)

    def _refuse_takeover(
        self, address: Address, frames: Frames, noted: Noted, now: float
    ) -> Received:
        """Refuse a peer that uses another's name; the side never gets the message."""
        fault = Fault(FaultCode.DENIED, noted.detail)
        result: list[Event | Send | Subscribed] = [*self._deny(address, frames, None, fault, now)]
        if self._should_record(noted.peer, now):
            result.append(noted)
        return result

    def _checked(
        self, address: Address, frames: Frames, identity: PeerIdentity, now: float
    ) -> Received:
        received = self._side.receive(address, frames, now)
        result: list[Event | Send | Subscribed] = []
        fault: Fault | None = None
        for item in received:
            kind = type(item)
            if kind is Send:
                result.append(item)
                continue
            checked, reason = self._check_item(item, identity, now)
            result += checked
            fault = fault or reason
        if fault is None:
            return result
        sends = [item for item in result if type(item) is Send]
        others = [item for item in result if type(item) is not Send]
        return [*others, *self._deny(address, frames, sends, fault, now)]

    def _check_item(
        self, item: Any, identity: PeerIdentity, now: float
    ) -> tuple[list[Event | Subscribed], Fault | None]:
        """Return the events for one item of a side, and the fault if it is refused."""
        if type(item) is Subscribed:
            return self._subscription(item, identity, now)
        checked: list[Event | Subscribed] = []
        fault = None
        for event in self._gate.check(item, identity, now):
            if type(event) is EventDenied:
                fault = event.fault
                checked.append(self._bounded(event, now))
            else:
                checked.append(event)
        return checked, fault

    def _subscription(
        self, item: Subscribed, identity: PeerIdentity, now: float
    ) -> tuple[list[Event | Subscribed], Fault | None]:
        if not item.topics:
            return [item], None
        noted = self._gate.may_subscribe(item.peer, identity)
        if noted.kind == Kind.ALLOWED:
            return [noted, item], None
        fault = Fault(FaultCode.DENIED, noted.detail)
        return ([noted] if self._should_record(item.peer, now) else []), fault

    def _bounded(self, refused: EventDenied, now: float) -> EventDenied:
        """Do not record a refusal over the limit."""
        event: Any = refused.event
        peer = getattr(event, "client", None) or getattr(event, "worker", None) or event.peer
        if self._should_record(peer, now):
            return refused
        return replace(refused, is_recorded=False)

    def _should_record(self, peer: PeerId | None, now: float) -> bool:
        return peer is not None and self._refusals.should_record(peer, now)


def _keep(
    address: Address, frames: Frames, sends: list[Send] | None, fault: Fault, now: float
) -> list[Send]:
    """Keep a side's own answers: the core's answer holds the refusal."""
    return sends or []
