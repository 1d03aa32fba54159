"""What a ledger is. `memory` and `sqlite` implement it; one conformance suite runs on both."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from dragoman.model.body import Body
from dragoman.model.record import Record
from dragoman.model.value import value


class LedgerError(Exception):
    """The ledger cannot do what was asked; the message says what, where and what to do."""


class LedgerDamaged(LedgerError):
    """The stored bytes are not what was written. Names the range; nothing was skipped."""

    def __init__(self, message: str, first: int, last: int) -> None:
        super().__init__(message)
        self.first = first
        self.last = last


class LedgerFull(LedgerError):
    """No space left (or an I/O error): the batch was not written, not even in part."""


@value
class Entry:
    """A record and the body stored beside it."""

    record: Record
    body: Body | None = None


class Ledger(Protocol):
    """The broker is the only writer; it numbers the records itself, without gaps.

    An implementation refuses a batch whose first record does not follow the last one it has.
    """

    @property
    def last_seq(self) -> int:
        """The newest record that was appended; 0 when there is none."""
        ...

    @property
    def first_seq(self) -> int:
        """The oldest record still kept; `last_seq + 1` when there is none."""
        ...

    async def append(self, entries: Sequence[Entry]) -> int:
        """Write a batch; when this returns, it is durable. Returns the last sequence number.

        Several appends may be under way at once, provided that each follows the one before:
        they are joined into one commit. When one fails, those that follow it fail too.
        """
        ...

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Yield records after a position, in order.

        Raises LedgerError when retention has removed what follows that position (position 0
        means "from the oldest kept").
        """
        ...

    def rows(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Return records after a position as plain tuples in field order, for bulk readers.

        `strict` may come as 0 or 1. Bounds and errors are those of `read`.
        """
        ...

    def history(self, job: str) -> list[Record]:
        """Return every record of one job, in order."""
        ...

    def body(self, seq: int) -> Body | None:
        """Return the body stored beside a record."""
        ...

    def checkpoint(self, name: str, seq: int) -> None:
        """Remember, durably, how far a named reader has come; retention keeps what it needs."""
        ...

    def checkpoints(self) -> dict[str, int]:
        """Return every named reader's position."""
        ...

    def forget_checkpoint(self, name: str) -> None:
        """Let go of a reader that will not come back."""
        ...

    async def retain(
        self,
        *,
        before_at: float | None = None,
        keep_records: int | None = None,
        protected_seq: int | None = None,
    ) -> int:
        """Remove the oldest records that no policy, job or reader needs; return `first_seq`.

        A record goes only if every policy given lets it go: it is older than `before_at`, it
        is not among the newest `keep_records`. Records from `protected_seq` (the oldest
        record of any unfinished job) on, and those after any checkpoint, always stay.
        """
        ...

    async def close(self) -> None:
        """Write out what is pending and let go."""
        ...
