"""The ordered publisher of the data plane: messages leave in order, acks are cumulative.

Used by both roles. It knows sequence numbers, instants and acks, not subjects or sockets: the owner
turns the items that `pump` returns into messages and reports what came back. What is acked is
never sent again by it; a failure replays from the first message without an ack, after a pause
that doubles while nothing succeeds.
"""

from collections import deque

from dragoman.dialects.ncl.models import Wire
from dragoman.model.value import value


@value
class Item:
    """One message: its position in the sender's ledger, its payload."""

    seq: int
    payload: Wire


class Publisher:
    """What still has to reach one peer, in order."""

    def __init__(
        self, ack_wait: float, max_pending: int, retry_base: float, retry_max: float
    ) -> None:
        self._ack_wait = ack_wait
        self._max_pending = max_pending
        self._retry_base = retry_base
        self._retry_max = retry_max
        #: Waiting to be sent, by rising sequence.
        self._queue: deque[Item] = deque()
        #: Sent and not acked, with the instant each left; all before those in the queue.
        self._flight: deque[tuple[Item, float]] = deque()
        self._failures = 0
        self._retry_at: float | None = None
        self.is_open = False
        #: Highest sequence that was acked.
        self.acked = 0
        #: Highest sequence that was ever put in.
        self.last = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._flight)

    def holds(self, seq: int) -> bool:
        """Whether this message waits here, sent or not."""
        return any(item.seq == seq for item in self._unacked())

    def put(self, seq: int, payload: Wire) -> Item:
        """Queue a message. A number that does not rise is moved up, so that order is kept."""
        self.last = max(self.last + 1, seq)
        item = Item(self.last, payload)
        self._queue.append(item)
        return item

    def open(self, start: int) -> None:
        """Begin a session after `start`: what is unacked and later goes out again."""
        self._queue = deque(item for item in self._unacked() if item.seq > start)
        self._flight.clear()
        self._failures, self._retry_at = 0, None
        self.acked = start
        self.last = max(self.last, start)
        self.is_open = True

    def close(self) -> None:
        """End the session; what is unacked waits for the next one."""
        self._queue = deque(self._unacked())
        self._flight.clear()
        self.is_open = False

    def _unacked(self) -> list[Item]:
        return [*(item for item, _ in self._flight), *self._queue]

    def pump(self, now: float) -> list[Item]:
        """Return what may leave now; it counts as sent."""
        if not self.is_open or not self._queue:
            return []
        if self._retry_at is not None:
            if now < self._retry_at:
                return []
            self._retry_at = None
        leaving = []
        while self._queue and len(self._flight) < self._max_pending:
            item = self._queue.popleft()
            self._flight.append((item, now))
            leaving.append(item)
        return leaving

    def ack(self, seq: int) -> None:
        """Take an ack: it counts for everything at or below `seq`."""
        if seq > self.last:
            return
        self.acked = max(self.acked, seq)
        self._failures = 0
        while self._flight and self._flight[0][0].seq <= seq:
            self._flight.popleft()
        # After a failure a late ack may speak of what waits to be sent again.
        while not self._flight and self._queue and self._queue[0].seq <= seq:
            self._queue.popleft()

    def fail(self, now: float) -> None:
        """Take a failed delivery: everything in flight waits, then goes out again in order."""
        if not self._flight:
            return
        self._queue = deque(self._unacked())
        self._flight.clear()
        pause = min(self._retry_base * 2**self._failures, self._retry_max)
        self._failures = min(self._failures + 1, 32)
        self._retry_at = now + pause

    def replay(self) -> None:
        """Send what is in flight again, now: the connection under it is a new one."""
        self._queue = deque(self._unacked())
        self._flight.clear()
        self._retry_at = None

    def advance(self, now: float) -> None:
        """Notice an ack that is overdue."""
        if self._flight and now >= self._flight[0][1] + self._ack_wait:
            self.fail(now)

    def next_deadline(self) -> float | None:
        """When `advance` and `pump` have something to do."""
        if not self.is_open:
            return None
        if self._flight:
            return self._flight[0][1] + self._ack_wait
        return self._retry_at if self._queue else None
