"""Events for subscribers: the ledger from a chosen position, then live.

A subscriber that is behind is served from the ledger in bounded pieces, one each turn. A subscriber
that has caught up gets each batch when it is durable. No record is sent twice or out of order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dragoman.dialects.base import EventSide, Subscribed, topic_of
from dragoman.ledger.base import Entry, Ledger
from dragoman.model.body import Body
from dragoman.model.names import PeerId
from dragoman.model.record import Record
from dragoman.server.links import Link, Links
from dragoman.transports.base import Sent

#: Records read in one turn for one subscriber that is behind.
PIECE: Final = 500
#: Subscriptions of one broker; further ones are ignored.
MOST: Final = 10_000


class FeedSubscriber:
    """One subscription and its position."""

    __slots__ = ("after", "link", "side", "wish")

    def __init__(self, link: Link, side: EventSide, wish: Subscribed) -> None:
        self.link = link
        self.side = side
        self.wish = wish
        self.after = wish.after


class EventFeed:
    """All subscriptions of a broker."""

    def __init__(self, ledger: Ledger, links: Links) -> None:
        self._ledger = ledger
        self._links = links
        #: Set while security is on: tells whether a peer may see a record.
        self.may_see: Callable[[PeerId, Record], bool] | None = None
        self._subscribers: dict[tuple[PeerId, str], FeedSubscriber] = {}
        self._is_behind = False

    def __len__(self) -> int:
        return len(self._subscribers)

    def subscribe(self, link: Link, wish: Subscribed) -> None:
        """Start, replace or end a subscription. A negative position means "from now on"."""
        key = (wish.peer, wish.tag)
        self._subscribers.pop(key, None)
        if not wish.topics or len(self._subscribers) >= MOST:
            return
        subscriber = FeedSubscriber(link, link.side, wish)  # type: ignore[arg-type]
        if wish.after < 0:
            subscriber.after = self._ledger.last_seq
        self._subscribers[key] = subscriber
        self._is_behind = True
        self._links.wake()

    def next_turn(self) -> float | None:
        """Serve subscribers that are behind; return 0 if one still is, else None."""
        return 0.0 if self._is_behind and self._catch_up() else None

    def publish(self, entries: Sequence[Entry]) -> None:
        """Send a durable batch to the subscribers that have caught up."""
        if not entries or not self._subscribers:
            return
        first = entries[0].record.seq
        for key, subscriber in list(self._subscribers.items()):
            if subscriber.after < first - 1:
                self._is_behind = True
                self._links.wake()
            elif not self._offer(subscriber, ((e.record, e.body) for e in entries)):
                del self._subscribers[key]

    def _catch_up(self) -> bool:
        """Send a piece to every subscriber that is behind; tell whether one still is."""
        behind = False
        last = self._ledger.last_seq
        for key, subscriber in list(self._subscribers.items()):
            if subscriber.after >= last:
                continue
            # If retention has removed the records asked for, continue with the oldest one.
            after = max(subscriber.after, self._ledger.first_seq - 1)
            records = list(self._ledger.read(after, PIECE))
            if not self._offer(subscriber, ((r, self._body(r)) for r in records)):
                del self._subscribers[key]
            behind = behind or subscriber.after < last
        self._is_behind = behind
        return behind

    def _body(self, record: Record) -> Body | None:
        return self._ledger.body(record.seq) if record.nbytes else None

    def forget(self, peers: Iterable[PeerId]) -> None:
        """End every subscription of some peers."""
        gone = set(peers)
        for key in [key for key in self._subscribers if key[0] in gone]:
            del self._subscribers[key]

    def _is_seen(self, subscriber: FeedSubscriber, record: Record) -> bool:
        return self.may_see is None or self.may_see(subscriber.wish.peer, record)

    def _offer(
        self, subscriber: FeedSubscriber, records: Iterable[tuple[Record, Body | None]]
    ) -> bool:
        """Send the matching records; tell whether the subscription continues."""
        for record, body in records:
            if record.seq <= subscriber.after:
                continue
            subscriber.after = record.seq
            if not subscriber.wish.wants(topic_of(record)) or not self._is_seen(subscriber, record):
                continue
            for send in subscriber.side.render_event(subscriber.wish, record, body):
                # A full queue ends the subscription, too. The client sees the gap in the
                # sequence and subscribes again from its last position.
                if subscriber.link.send(send) is not Sent.YES:
                    return False
        return True
