"""The oracle of simulated clusters: what the stream, the copies and the clients must agree on.

It reads every message that the stream ever stored, also those that were purged later.
"""

from collections.abc import Sequence

from dragoman.core.effects import Effect, SendReply
from dragoman.core.events import ReplyKind
from dragoman.ledger.base import Entry
from dragoman.ledger.memory_stream import MemoryStream
from dragoman.ledger.replicated import ReplicatedLedger
from dragoman.ledger.rows import Row, to_row
from dragoman.ledger.stream_codec import Appended, LedgerMessage, decode
from dragoman.model.job import FINAL, JobState
from dragoman.model.record import Kind
from dragoman.testing.oracle import PromiseBroken

_KIND, _JOB = 2, 3


class ClusterOracle:
    """Watches one simulated cluster."""

    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream
        self._read_up_to = 0
        #: Every record of the stream, by number.
        self.records: dict[int, Row] = {}
        #: The newest epoch of the stream, and who began each epoch.
        self.epoch = 0
        self._began: dict[int, str] = {}
        #: Jobs whose strict acknowledgement reached a client.
        self.acknowledged: set[str] = set()
        self._final_states: dict[str, JobState] = {}

    def require(self, claim: object, message: str) -> None:
        """Raise `PromiseBroken` if a claim is false."""
        if not claim:
            raise PromiseBroken(message)

    # --- the stream -----------------------------------------------------------------------------

    def look(self) -> None:
        """Read and check what the stream has stored since the last look."""
        for message in self._stream.messages:
            if message.last > self._read_up_to:
                self._read_up_to = message.last
                self._check(decode(message.data))

    def _check(self, message: LedgerMessage) -> None:
        self.require(
            message.epoch >= self.epoch,
            f"epoch {message.epoch} was written after epoch {self.epoch}: a fence did not hold",
        )
        is_new, self.epoch = message.epoch > self.epoch, message.epoch
        if not isinstance(message, Appended):
            self.require(not is_new, "an epoch did not begin with its `started` record")
            return
        self.require(
            message.first == len(self.records) + 1,
            f"record {message.first} follows {len(self.records)} in the stream",
        )
        starts = [row for row in message.rows if row[_KIND] == Kind.STARTED]
        self.require(
            bool(starts) == is_new, f"epoch {self.epoch} began {len(starts)} times in one message"
        )
        for row in message.rows:
            self.records[row[0]] = row[:-3]

    def written(self, entries: Sequence[Entry]) -> None:
        """Check that records whose sends leave are in the stream."""
        self.look()
        for entry in entries:
            seq = entry.record.seq
            is_there = self.records.get(seq) == to_row(entry.record)
            self.require(is_there, f"record {seq} is acknowledged, and is not in the stream")

    def fenced(self, node: str, epoch: int) -> None:
        """Check that a fenced leader has a successor."""
        self.look()
        self.require(self.epoch > epoch, f"{node} was fenced in epoch {epoch} by nobody")

    # --- clients --------------------------------------------------------------------------------

    def received(self, reply: Effect) -> None:
        """Note what a client was told."""
        if not isinstance(reply, SendReply):
            return
        if reply.is_strict and reply.kind in (ReplyKind.QUEUED, ReplyKind.DISPATCHED):
            self.acknowledged.add(reply.job)
        if reply.is_strict and reply.kind is ReplyKind.FINAL and reply.state in FINAL:
            assert reply.state is not None
            before = self._final_states.setdefault(reply.job, reply.state)
            self.require(before is reply.state, f"{reply.job} was {before} and is {reply.state}")

    # --- at the end -----------------------------------------------------------------------------

    def check_finished(self, copies: Sequence[ReplicatedLedger]) -> None:
        """Check that nothing acknowledged is lost, and that the copies are equal."""
        self.look()
        known = {row[_JOB] for row in self.records.values() if row[_KIND] == Kind.SUBMITTED}
        lost = sorted(self.acknowledged - known)
        self.require(not lost, f"acknowledged and lost: {lost}")
        heads = {copy.head() for copy in copies}
        self.require(len(heads) == 1, f"the copies differ: {heads}")
        for copy in copies:
            copy.verify()
            for row in copy.rows(copy.first_seq - 1, len(self.records)):
                is_same = row == self.records[row[0]]
                self.require(is_same, f"record {row[0]} of a copy differs from the stream")
