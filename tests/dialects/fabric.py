"""A whole fabric in memory: the real broker and its sides, without sockets or a clock.

Peers are addresses of a link. Messages to a peer wait in its `inbox`. Only `wait` advances time.
"""

from collections import defaultdict
from collections.abc import Iterable

from tests.kept_bodies import KeptBodies

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Dismiss, Effect, SendReply, SendStatus, SendWork
from dragoman.core.events import DeliveryFailed, Event, TimeAdvanced
from dragoman.dialects.base import BrokerSide, Frames, MalformedMessage, Send, Subscribed
from dragoman.ledger.rows import to_row
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId, link_of
from dragoman.model.record import Record


class Fabric:
    """The broker with its sides."""

    def __init__(self, *sides: BrokerSide) -> None:
        self.sides = {side.link: side for side in sides}
        self.broker = Broker()
        self.now = 1_000_000.0
        self.inbox: dict[tuple[str, bytes], list[Frames]] = defaultdict(list)
        self.records: list[Record] = []
        self._bodies = KeptBodies()
        self.malformed: list[str] = []
        #: Addresses of peers that are gone.
        self.gone: set[tuple[str, bytes]] = set()

    def say(self, link: str, address: bytes, *messages: Frames) -> None:
        """Send messages of a peer to the broker."""
        for frames in messages:
            try:
                decoded = self.sides[link].receive(address, frames, self.now)
            except MalformedMessage as error:
                self.malformed.append(str(error))
                continue
            self._do(link, decoded)

    def hear(self, link: str, address: bytes) -> list[Frames]:
        """Return the messages to a peer, and forget them."""
        return self.inbox.pop((link, address), [])

    def wait(self, seconds: float) -> None:
        """Advance time, from deadline to deadline."""
        until = self.now + seconds
        while (due := self._next()) is not None and due <= until:
            self.now = max(self.now, due)
            self._advance()
        self.now = until
        self._advance()

    def kinds(self, job: str = "") -> list[str]:
        """Return the kinds of the records, of one job if it is named."""
        return [str(r.kind) for r in self.records if not job or r.job == job]

    def _next(self) -> float | None:
        dues = [self.broker.next_deadline(), *(s.next_deadline() for s in self.sides.values())]
        return min((due for due in dues if due is not None), default=None)

    def _advance(self) -> None:
        for link, side in self.sides.items():
            self._do(link, side.advance(self.now))
        self._handle(TimeAdvanced())

    def _do(self, link: str, decoded: Iterable[Event | Send | Subscribed]) -> None:
        for each in decoded:
            if isinstance(each, Send):
                self._deliver(link, each)
            elif not isinstance(each, Subscribed):
                self._handle(each)

    def _handle(self, event: Event) -> None:
        effects = self.broker.handle(event, self.now)
        self.broker.validate()
        for effect in effects:
            self._apply(effect)

    def _apply(self, effect: Effect) -> None:
        if isinstance(effect, Append):
            self.records.append(effect.record)
            self._bodies.keep(effect)
            to_row(effect.record)  # a record that cannot be stored would stop a real broker
            return
        effect = self._bodies.fill(effect)
        peer = _peer_of(effect)
        link = link_of(peer)
        if link not in self.sides:
            return
        try:
            sends = self.sides[link].render(effect, self.now)
        except Unmappable as error:
            self._failed(effect, False, Fault(FaultCode.UNMAPPABLE, str(error)))
            return
        if not all(self._deliver(link, send) for send in sends):
            self._failed(effect, True, None)

    def _deliver(self, link: str, send: Send) -> bool:
        if (link, send.address) in self.gone:
            return False
        self.inbox[link, send.address].append(send.frames)
        return True

    def _failed(self, effect: Effect, is_gone: bool, fault: Fault | None) -> None:
        job, attempt = None, 0
        if isinstance(effect, SendWork):
            job, attempt = effect.job, effect.attempt
        self._handle(DeliveryFailed(_peer_of(effect), is_gone, job, attempt, fault))


def _peer_of(effect: Effect) -> PeerId:
    assert not isinstance(effect, Append)
    if isinstance(effect, SendReply | SendStatus):
        return effect.client
    return effect.peer if isinstance(effect, Dismiss) else effect.worker
