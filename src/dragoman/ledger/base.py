"""The ledger interface. `memory`, `sqlite` and `replicated` implement it; one suite tests all."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from dragoman.model.body import Body
from dragoman.model.record import Record
from dragoman.model.value import value


class LedgerError(Exception):
    """The ledger cannot do an operation; the message says which, where, and what to do."""


class LedgerDamaged(LedgerError):
    """The stored bytes are not what was written. Names the range of records; skips none."""

    def __init__(self, message: str, first: int, last: int) -> None:
        super().__init__(message)
        self.first = first
        self.last = last


class LedgerUnwritable(LedgerError):
    """No part of the batch was written; the same batch may be tried again. `hint`: what to do."""

    #: The cause in a few words, without paths, for peers.
    summary = "the ledger is not writable"
    #: Whether waiting alone cannot help.
    is_lasting = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class LedgerFull(LedgerUnwritable):
    """No space is left."""

    summary = "no space is left on the ledger's disk"


class LedgerIoError(LedgerUnwritable):
    """The disk or the file system reports an error."""

    summary = "the ledger's disk reports an I/O error"


class LedgerMissing(LedgerUnwritable):
    """The files at the ledger's path are no longer the open ones: deleted, moved or replaced."""

    summary = "the ledger's files were deleted, moved or replaced"
    is_lasting = True


class LedgerUnavailable(LedgerError):
    """The batch may or may not be written; only the same batch may follow, until that is known."""

    summary = "the ledger's replicas do not answer"
    is_lasting = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Fenced(LedgerError):
    """Another leader has written. This process never writes to this ledger again."""


#: Errors after which the same batch is tried again.
LedgerTrouble: TypeAlias = LedgerUnwritable | LedgerUnavailable


@value
class Entry:
    """A record and its body."""

    record: Record
    body: Body | None = None


#: Tells whether a record must stay, however old it is.
Needed: TypeAlias = Callable[[Record], bool]


class Ledger(Protocol):
    """The broker is the only writer; it numbers the records, without gaps.

    An implementation refuses a batch that does not follow its last record.
    """

    @property
    def last_seq(self) -> int:
        """The newest record; 0 if there is none."""
        ...

    @property
    def first_seq(self) -> int:
        """The oldest record still kept; `last_seq + 1` if there is none."""
        ...

    async def append(self, entries: Sequence[Entry]) -> int:
        """Write a batch; it is durable when this returns. Returns the last sequence number.

        Several appends may run at once if each follows the one before; they are joined into one
        commit. If one fails, the appends after it fail too.
        """
        ...

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Record]:
        """Yield records after a position, in order.

        Raises LedgerError if retention has removed the records after that position. Position 0
        means "from the oldest record kept".
        """
        ...

    def rows(self, after: int, limit: int) -> list[tuple[Any, ...]]:
        """Return records after a position as plain tuples in field order, for bulk readers.

        `strict` may be 0 or 1. Bounds and errors are those of `read`.
        """
        ...

    def mark(self, seq: int) -> str:
        """Return a text that no other ledger has for this position, so that copies are recognised.

        Raises LedgerError if the ledger does not have that record.
        """
        ...

    def pinned(self) -> list[Record]:
        """Return the records before `first_seq` that retention kept, in order."""
        ...

    def history(self, job: str) -> list[Record]:
        """Return every record of one job, pinned ones too, in order."""
        ...

    def body(self, seq: int) -> Body | None:
        """Return the body of a record."""
        ...

    def checkpoint(self, name: str, seq: int) -> None:
        """Store, durably, how far a named reader has read; retention keeps what follows."""
        ...

    def checkpoints(self) -> dict[str, int]:
        """Return every named reader's position."""
        ...

    def forget_checkpoint(self, name: str) -> None:
        """Remove the checkpoint of a reader that will not come back."""
        ...

    async def retain(
        self,
        *,
        before_at: float | None = None,
        keep_records: int | None = None,
        needed: Needed | None = None,
    ) -> int:
        """Remove the oldest records that no policy, job or reader needs; return `first_seq`.

        A record is removed only if every given policy allows it: it is older than `before_at`, and
        not among the newest `keep_records`. Records after any checkpoint always stay. `needed` is
        asked for each of the others, on this thread: a needed record is pinned with its body. A
        pinned record goes when it is no longer needed.
        """
        ...

    async def close(self) -> None:
        """Write what is pending and close."""
        ...
