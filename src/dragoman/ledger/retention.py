"""Where retention may cut. Pure arithmetic on sequence numbers; the ledgers do the removing.

A ledger only ever loses a prefix, so that what is kept has no gaps.
"""

from collections.abc import Iterable, Sequence

from dragoman.ledger.base import Entry, LedgerError


def last_removable(
    policies: Iterable[int], protected_seq: int | None, checkpoints: Iterable[int]
) -> int:
    """Return the newest record that may go; 0 when none may.

    `policies` are the newest records that each policy lets go; without a policy nothing goes.
    A checkpoint at n has read n, and needs n + 1.
    """
    bounds = list(policies)
    if not bounds:
        return 0
    bounds += checkpoints
    if protected_seq is not None:
        bounds.append(protected_seq - 1)
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
    """Refuse to read from a position whose following records were removed."""
    if 0 < after < first - 1:
        raise LedgerError(
            f"records {after + 1} to {first - 1} were removed by retention; the oldest is {first}"
        )


def require_position(name: str, seq: int, last: int) -> None:
    """Refuse a checkpoint that is nowhere in the ledger."""
    if not 0 <= seq <= last:
        raise LedgerError(f"checkpoint {name!r} at {seq} is outside the ledger (0 to {last})")
