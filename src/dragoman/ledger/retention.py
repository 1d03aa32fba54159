"""Retention: which records may be removed. The ledgers remove them.

Only a prefix is ever removed, so the kept records have no gaps. Needed records of that prefix are
pinned: they move to a place of their own.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from dragoman.ledger.base import Entry, LedgerError

#: Records removed, or pinned ones looked at, in one step; bounds how long appends wait.
SLICE: Final = 5000


def last_removable(policies: Iterable[int], checkpoints: Iterable[int]) -> int:
    """Return the newest record that may be removed; 0 if none may.

    `policies` has the newest record that each policy allows to remove; without a policy nothing is
    removed. A reader with a checkpoint at n has read n and needs n + 1.
    """
    bounds = list(policies)
    if not bounds:
        return 0
    bounds += checkpoints
    return max(0, min(bounds))


def require_next(entries: Sequence[Entry], last: int) -> None:
    """Refuse a batch that does not follow `last` without a gap."""
    expected = last
    for entry in entries:
        expected += 1
        if entry.record.seq != expected:
            raise LedgerError(
                f"record {entry.record.seq} does not follow {expected - 1}: expected {expected}"
            )


def require_kept(after: int, first: int) -> None:
    """Refuse to read from a position if records after it were removed."""
    if 0 < after < first - 1:
        raise LedgerError(
            f"records {after + 1} to {first - 1} were removed by retention; the oldest is {first}"
        )


def require_position(name: str, seq: int, last: int) -> None:
    """Refuse a checkpoint outside the ledger."""
    if not 0 <= seq <= last:
        raise LedgerError(f"checkpoint {name!r} at {seq} is outside the ledger (0 to {last})")
