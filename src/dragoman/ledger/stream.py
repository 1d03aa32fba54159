"""A replicated stream of messages, as the replicated ledger sees it.

Calls block, so a thread makes them. Only built-in errors are raised: TimeoutError and
ConnectionError (in doubt, or not reachable), OSError with ENOSPC (the stream is full).
"""

from collections.abc import Sequence
from typing import Protocol


class StreamMessage(Protocol):
    """One message. A large one has several pieces in the stream, each with its own sequence."""

    @property
    def first(self) -> int:
        """The sequence of its first piece."""
        ...

    @property
    def last(self) -> int:
        """The sequence of its last piece."""
        ...

    @property
    def id(self) -> str:
        """Derived from the content."""
        ...

    @property
    def data(self) -> bytes:
        """The content."""
        ...


class Stream(Protocol):
    """Messages with sequence numbers, kept by a majority of servers.

    At most one publish may be under way. With two, the second could be stored behind the fence of
    another leader that the first one ran into.
    """

    def publish(self, data: bytes, message_id: str, expected_last: int) -> int | None:
        """Store a message behind `expected_last`, whole; return the sequence of its last piece.

        Returns None if the stream's last sequence is another one. The message itself may be the
        reason, if an earlier attempt was stored.
        """
        ...

    def read(self, first: int) -> StreamMessage | None:
        """Return the message that begins at a sequence; None: there is none, or not yet."""
        ...

    def follow(self, after: int, at_most: float) -> Sequence[StreamMessage]:
        """Return messages after a sequence, in order; wait for the first one up to `at_most` s."""
        ...

    def last_sequence(self) -> int:
        """Return the newest sequence, as the majority knows it."""
        ...

    def first_sequence(self) -> int:
        """Return the oldest kept sequence; `last_sequence() + 1` if there is none."""
        ...

    def purge(self, before: int) -> None:
        """Remove the messages before a sequence."""
        ...

    def close(self) -> None:
        """Give up what is under way, and close."""
        ...
