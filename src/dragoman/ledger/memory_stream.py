"""The in-memory twin of a replicated stream, with the faults that a real one has.

`MemoryStream` is what the servers hold together. Each broker has its own `StreamConnection`, whose
`faults` decide what happens to each call: a request that is lost, an answer that is lost, a message
that arrives late, servers without a majority, an answer from a server that is behind.
"""

from collections.abc import Sequence
from random import Random
from threading import Condition
from typing import Final

from dragoman.model.value import value

#: Bytes of one piece; small, so that tests have messages with several.
PIECE: Final = 64 * 1024
#: Servers that hold the stream.
REPLICAS: Final = 3


@value
class StoredMessage:
    """A message: its first and last sequence, its id, and its content."""

    first: int
    last: int
    id: str
    data: bytes


class StreamFaults:
    """Chances of faults, from a seeded generator; by default there are none."""

    def __init__(
        self,
        random: Random | None = None,
        *,
        lost_request: float = 0.0,
        lost_answer: float = 0.0,
        late: float = 0.0,
        stale: float = 0.0,
        repeated: float = 0.0,
    ) -> None:
        # Faults of tests need no secret numbers.
        self.random = random or Random(0)  # nosec B311
        self.lost_request = lost_request  #: the message does not arrive
        self.lost_answer = lost_answer  #: the message is stored; its answer is lost
        self.late = late  #: the message arrives when the sender has given up
        self.stale = stale  #: a read is answered by a server that is behind
        self.repeated = repeated  #: a message is delivered that was delivered before
        self.count = 0

    def stop(self) -> None:
        """Let no more faults happen."""
        self.lost_request = self.lost_answer = self.late = self.stale = self.repeated = 0.0

    def strikes(self, chance: float) -> bool:
        """Tell whether a fault happens now."""
        happens = chance > 0 and self.random.random() < chance
        self.count += happens
        return happens


class MemoryStream:
    """The stored messages, and how many of the servers run."""

    def __init__(self, remembers: int = 10_000) -> None:
        self._messages: list[StoredMessage] = []
        self._last = 0
        self._first = 1
        self._remembers = remembers
        #: Ids of the newest messages, with their sequence.
        self._known: dict[str, int] = {}
        self.servers = REPLICAS
        self._stored = Condition()  #: notified when a message is stored
        #: Messages on their way: they arrive when `deliver_late` is called.
        self.late: list[tuple[bytes, str, int]] = []

    @property
    def has_quorum(self) -> bool:
        """Whether a majority of the servers runs."""
        return self.servers * 2 > REPLICAS

    @property
    def last(self) -> int:
        """The newest sequence."""
        return self._last

    @property
    def first(self) -> int:
        """The oldest kept sequence."""
        return self._first

    @property
    def messages(self) -> Sequence[StoredMessage]:
        """All kept messages."""
        return self._messages

    def store(self, data: bytes, message_id: str, expected_last: int) -> int | None:
        """Store a message if it follows; answer a known id with its sequence."""
        if (known := self._known.get(message_id)) is not None:
            return known
        if expected_last != self._last:
            return None
        pieces = max(1, -(-len(data) // PIECE))
        first, self._last = self._last + 1, self._last + pieces
        self._messages.append(StoredMessage(first, self._last, message_id, data))
        self._known[message_id] = self._last
        with self._stored:
            self._stored.notify_all()
        while len(self._known) > self._remembers:
            del self._known[next(iter(self._known))]
        return self._last

    def wait_behind(self, after: int, at_most: float) -> None:
        """Wait until there is a message after a sequence."""
        if at_most > 0.0:
            with self._stored:
                self._stored.wait_for(lambda: self._last > after, at_most)

    def deliver_late(self) -> None:
        """Let the messages arrive that were on their way."""
        waiting, self.late = self.late, []
        if self.has_quorum:
            for message in waiting:
                self.store(*message)

    def purge(self, before: int) -> None:
        """Remove the messages before a sequence."""
        self._first = max(self._first, min(before, self._last + 1))
        self._messages = [each for each in self._messages if each.first >= self._first]


class StreamConnection:
    """One broker's connection to the stream."""

    def __init__(self, stream: MemoryStream, faults: StreamFaults | None = None) -> None:
        self._stream = stream
        self.faults = faults or StreamFaults()
        self.is_cut = False  #: whether the network between this broker and the servers is cut
        self._is_open = True

    def publish(self, data: bytes, message_id: str, expected_last: int) -> int | None:
        """Store a message; raise TimeoutError if the answer does not come."""
        self._require_reachable()
        if not self._stream.has_quorum or self.faults.strikes(self.faults.lost_request):
            raise TimeoutError("no answer of the simulated stream")
        if self.faults.strikes(self.faults.late):
            self._stream.late.append((data, message_id, expected_last))
            raise TimeoutError("no answer of the simulated stream")
        stored = self._stream.store(data, message_id, expected_last)
        if self.faults.strikes(self.faults.lost_answer):
            raise TimeoutError("no answer of the simulated stream")
        return stored

    def read(self, first: int) -> StoredMessage | None:
        """Return the message that begins at a sequence, unless the server is behind."""
        self._require_reachable()
        if self.faults.strikes(self.faults.stale):
            return None
        return next((m for m in reversed(self._stream.messages) if m.first == first), None)

    def follow(self, after: int, at_most: float = 0.0) -> Sequence[StoredMessage]:
        """Return the messages after a sequence; a server that is behind has fewer."""
        self._require_reachable()
        self._stream.wait_behind(after, at_most)
        if self.faults.strikes(self.faults.repeated):
            after = max(0, after - self.faults.random.randint(1, 2))
        found = [each for each in self._stream.messages if each.last > after]
        if found and self.faults.strikes(self.faults.stale):
            return found[: self.faults.random.randrange(len(found))]
        return found

    def last_sequence(self) -> int:
        """Return the newest sequence; a server that is behind, an older one."""
        self._require_reachable()
        if not self._stream.has_quorum:
            raise TimeoutError("no answer of the simulated stream")
        messages = self._stream.messages
        if len(messages) > 1 and self.faults.strikes(self.faults.stale):
            return self.faults.random.choice(messages[:-1]).last
        return self._stream.last

    def first_sequence(self) -> int:
        """Return the oldest kept sequence."""
        self._require_reachable()
        return self._stream.first

    def purge(self, before: int) -> None:
        """Remove the messages before a sequence."""
        self._require_reachable()
        self._stream.purge(before)

    def close(self) -> None:
        """Close."""
        self._is_open = False

    def _require_reachable(self) -> None:
        if self.is_cut or not self._is_open:
            raise ConnectionError("the simulated stream is not reachable")
