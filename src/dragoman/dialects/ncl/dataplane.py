"""The ordered publisher of the data plane: messages leave in order and wait for their acks.

Used by both roles. It knows sequence numbers, instants and acks, not subjects or sockets: the owner
turns the items that `pump` returns into messages and reports what came back. A failure replays,
in order, what has no ack, after a pause that doubles while nothing succeeds. What is acked is never
sent again.

An ack settles its own message only, unless acks are set to be cumulative. The peers' reading (an
ack counts for everything before it) loses a message that got lost while a connection broke and a
later one got through; a receiver acks each message anyway, so nothing is gained by it.
"""

from collections import OrderedDict

from dragoman.dialects.ncl.models import WireObject
from dragoman.model.value import value


@value
class OrderedMessage:
    """One message: its position in the sender's ledger, its payload."""

    seq: int
    payload: WireObject


class Publisher:
    """What still has to reach one peer, in order."""

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
        #: Waiting to be sent, by rising sequence.
        self._queue: OrderedDict[int, OrderedMessage] = OrderedDict()
        #: Sent and not acked, with the instant each left; all before those in the queue.
        self._flight: OrderedDict[int, tuple[OrderedMessage, float]] = OrderedDict()
        self._failures = 0
        self._retry_at: float | None = None
        self.is_open = False
        #: Highest sequence that was ever put in.
        self.last = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._flight)

    @property
    def settled(self) -> int:
        """The highest sequence up to which everything is acked."""
        first = next(iter(self._flight), None) or next(iter(self._queue), None)
        return self.last if first is None else first - 1

    def holds(self, seq: int) -> bool:
        """Whether this message waits here, sent or not."""
        return seq in self._flight or seq in self._queue

    def put(self, seq: int, payload: WireObject) -> OrderedMessage:
        """Queue a message. A number that does not rise is moved up, so that order is kept."""
        self.last = max(self.last + 1, seq)
        item = OrderedMessage(self.last, payload)
        self._queue[item.seq] = item
        return item

    def open(self, start: int = 0) -> None:
        """Begin a session: what has no ack goes out again, what is new comes after `start`."""
        self._back_to_queue()
        self._failures, self._retry_at = 0, None
        self.last = max(self.last, start)
        self.is_open = True

    def close(self) -> None:
        """End the session; what has no ack waits for the next one."""
        self._back_to_queue()
        self.is_open = False

    def _back_to_queue(self) -> None:
        if self._flight:
            waiting = OrderedDict((seq, item) for seq, (item, _) in self._flight.items())
            waiting.update(self._queue)
            self._queue = waiting
            self._flight.clear()

    def pump(self, now: float) -> list[OrderedMessage]:
        """Return what may leave now; it counts as sent."""
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
        """Take an ack; a late one may speak of what waits to be sent again."""
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
        """Take a failed delivery: everything in flight waits, then goes out again in order."""
        if not self._flight:
            return
        self._back_to_queue()
        pause = min(self._retry_base * 2**self._failures, self._retry_max)
        self._failures = min(self._failures + 1, 32)
        self._retry_at = now + pause

    def replay(self) -> None:
        """Send what is in flight again, now: the connection under it is a new one."""
        self._back_to_queue()
        self._retry_at = None

    def advance(self, now: float) -> None:
        """Notice an ack that is overdue."""
        if self._flight and now >= self._oldest() + self._ack_wait:
            self.fail(now)

    def _oldest(self) -> float:
        return next(iter(self._flight.values()))[1]

    def next_deadline(self) -> float | None:
        """When `advance` and `pump` have something to do."""
        if not self.is_open:
            return None
        if self._flight:
            return self._oldest() + self._ack_wait
        return self._retry_at if self._queue else None
