"""The ordered publisher of the data plane: it sends messages in order and waits for their acks.

Both roles use it. It knows sequence numbers, times and acks, not subjects or sockets. The owner
sends what `pump` returns and reports acks and failures. After a failure the publisher pauses, then
replays all unacked messages in order. The pause doubles until an ack arrives. An acked message is
never sent again.

An ack settles one message only, unless `cumulative_acks` is set. Upstream takes an ack for all
earlier messages too. That loses a message that was dropped with a connection while a later one got
through. Receivers ack every message, so cumulative acks gain nothing.
"""

from collections import OrderedDict

from dragoman.dialects.ncl.models import WireObject
from dragoman.model.value import value


@value
class OrderedMessage:
    """A payload and its sequence number, the position in the sender's ledger."""

    seq: int
    payload: WireObject


class Publisher:
    """The unacked messages to one peer, in order."""

    def __init__(
        self,
        ack_wait: float,
        max_pending: int,
        retry_base: float,
        retry_max: float,
        is_cumulative: bool = False,
    ) -> None:
        self._ack_wait = ack_wait
        self._max_pending = max_pending
        self._retry_base = retry_base
        self._retry_max = retry_max
        self._is_cumulative = is_cumulative
        #: Messages to send, by rising sequence.
        self._queue: OrderedDict[int, OrderedMessage] = OrderedDict()
        #: Sent and unacked messages with their send times. All precede those in the queue.
        self._flight: OrderedDict[int, tuple[OrderedMessage, float]] = OrderedDict()
        self._failures = 0
        self._retry_at: float | None = None
        self.is_open = False
        #: Highest sequence ever queued.
        self.last = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._flight)

    @property
    def settled(self) -> int:
        """The highest sequence below which every message is acked."""
        first = next(iter(self._flight), None) or next(iter(self._queue), None)
        return self.last if first is None else first - 1

    def holds(self, seq: int) -> bool:
        """Whether this message is unacked, sent or not."""
        return seq in self._flight or seq in self._queue

    def put(self, seq: int, payload: WireObject) -> OrderedMessage:
        """Queue a message. A sequence that does not rise is raised, to keep the order."""
        self.last = max(self.last + 1, seq)
        item = OrderedMessage(self.last, payload)
        self._queue[item.seq] = item
        return item

    def open(self, start: int = 0) -> None:
        """Begin a session: resend unacked messages; number new ones after `start`."""
        self._back_to_queue()
        self._failures, self._retry_at = 0, None
        self.last = max(self.last, start)
        self.is_open = True

    def close(self) -> None:
        """End the session. Unacked messages wait for the next one."""
        self._back_to_queue()
        self.is_open = False

    def _back_to_queue(self) -> None:
        if self._flight:
            waiting = OrderedDict((seq, item) for seq, (item, _) in self._flight.items())
            waiting.update(self._queue)
            self._queue = waiting
            self._flight.clear()

    def pump(self, now: float) -> list[OrderedMessage]:
        """Return the messages to send now, and count them as sent."""
        if not self.is_open or not self._queue:
            return []
        if self._retry_at is not None:
            if now < self._retry_at:
                return []
            self._retry_at = None
        leaving = []
        while self._queue and len(self._flight) < self._max_pending:
            seq, item = self._queue.popitem(last=False)
            self._flight[seq] = (item, now)
            leaving.append(item)
        return leaving

    def ack(self, seq: int) -> None:
        """Handle an ack. A late one may be for a message that waits to be resent."""
        if seq > self.last:
            return
        self._failures = 0
        self._flight.pop(seq, None)
        self._queue.pop(seq, None)
        if self._is_cumulative:
            for waiting in (self._flight, self._queue):
                while waiting and next(iter(waiting)) <= seq:
                    waiting.popitem(last=False)

    def fail(self, now: float) -> None:
        """Handle a failed delivery: after a pause, resend everything in flight in order."""
        if not self._flight:
            return
        self._back_to_queue()
        pause = min(self._retry_base * 2**self._failures, self._retry_max)
        self._failures = min(self._failures + 1, 32)
        self._retry_at = now + pause

    def replay(self) -> None:
        """Resend everything in flight without a pause: the connection is new."""
        self._back_to_queue()
        self._retry_at = None

    def advance(self, now: float) -> None:
        """Fail the delivery if an ack is overdue."""
        if self._flight and now >= self._oldest() + self._ack_wait:
            self.fail(now)

    def _oldest(self) -> float:
        return next(iter(self._flight.values()))[1]

    def next_deadline(self) -> float | None:
        """Return when `advance` or `pump` is due next."""
        if not self.is_open:
            return None
        if self._flight:
            return self._oldest() + self._ack_wait
        return self._retry_at if self._queue else None
