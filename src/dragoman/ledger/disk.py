"""Disks for the in-memory ledger: a reliable one, and one with seeded faults."""

from random import Random
from typing import Protocol

from dragoman.ledger.base import LedgerFull, LedgerIoError


class Disk(Protocol):
    """A disk. Every method except `survivors` may raise LedgerUnwritable."""

    def write(self, entries: int) -> None:
        """Accept a batch of so many entries into the write cache."""
        ...

    def sync(self) -> None:
        """Make everything written so far durable."""
        ...

    def survivors(self, entries: int) -> int:
        """Return how many entries of an unsynced batch survive a power failure."""
        ...


class ReliableDisk:
    """Never fails. Keeps everything that was synced and nothing else."""

    def write(self, entries: int) -> None:
        """Accept the batch."""

    def sync(self) -> None:
        """Keep everything written."""

    def survivors(self, entries: int) -> int:
        """Lose the unsynced batch."""
        return 0


class FaultyDisk:
    """Injects faults from a seeded generator, and counts them.

    A full disk stays full until `free` is called; an I/O error affects one operation.
    """

    def __init__(self, random: Random, *, eio: float = 0.0, full: float = 0.0) -> None:
        self.random = random
        self.eio = eio  #: chance of an I/O error, for each write and each sync
        self.full = full  #: chance that a write finds the disk full
        self.is_full = False
        self.faults = 0  #: number of faults injected so far, of any kind
        self.torn = 0  #: batches of which only a part survived

    def write(self, entries: int) -> None:
        """Accept the batch, or fail because the disk is full or broken."""
        if not self.is_full and self.random.random() < self.full:
            self.is_full = True
        if self.is_full:
            self.faults += 1
            raise LedgerFull("no space left on the simulated disk")
        self._may_break("write")

    def sync(self) -> None:
        """Keep everything written, or fail."""
        self._may_break("sync")

    def survivors(self, entries: int) -> int:
        """Lose all, keep a part, or keep all, with equal probability."""
        fate = self.random.randrange(3)
        if fate == 2:
            return entries
        self.faults += 1
        if fate == 0 or entries == 1:
            return 0
        self.torn += 1
        return self.random.randrange(1, entries)

    def free(self) -> None:
        """Free the disk."""
        self.is_full = False

    def _may_break(self, what: str) -> None:
        if self.random.random() < self.eio:
            self.faults += 1
            raise LedgerIoError(f"I/O error of the simulated disk on {what}")
