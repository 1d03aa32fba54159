"""Disks for the in-memory ledger: a sound one, and one whose faults come from a seed."""

from random import Random
from typing import Protocol

from dragoman.ledger.base import LedgerFull


class Disk(Protocol):
    """Where things may go wrong. Every method may raise LedgerFull but `survivors`."""

    def write(self, entries: int) -> None:
        """Take a batch of so many entries into the write cache."""
        ...

    def sync(self) -> None:
        """Make everything written so far durable."""
        ...

    def survivors(self, entries: int) -> int:
        """Say how many entries of an unsynced batch reached the platter when power failed."""
        ...


class ReliableDisk:
    """Never fails, and loses nothing that was synced and everything that was not."""

    def write(self, entries: int) -> None:
        """Take it."""

    def sync(self) -> None:
        """Keep it."""

    def survivors(self, entries: int) -> int:
        """Lose what was not synced."""
        return 0


class FaultyDisk:
    """Draws its faults from a seeded generator; counts what it did.

    A disk that ran full stays full until `free` is called; an I/O error is over at once.
    """

    def __init__(self, random: Random, *, eio: float = 0.0, full: float = 0.0) -> None:
        self.random = random
        self.eio = eio  #: chance of an I/O error, for each write and each sync
        self.full = full  #: chance that a write finds the disk full
        self.is_full = False
        self.faults = 0  #: everything injected so far, of any kind
        self.torn = 0  #: batches of which only a part reached the platter

    def write(self, entries: int) -> None:
        """Take it, or find the disk full or broken."""
        if not self.is_full and self.random.random() < self.full:
            self.is_full = True
        if self.is_full:
            self.faults += 1
            raise LedgerFull("no space left on the simulated disk")
        self._may_break("write")

    def sync(self) -> None:
        """Keep it, or break."""
        self._may_break("sync")

    def survivors(self, entries: int) -> int:
        """Lose all, tear, or keep all, with equal chances."""
        fate = self.random.randrange(3)
        if fate == 2:
            return entries
        self.faults += 1
        if fate == 0 or entries == 1:
            return 0
        self.torn += 1
        return self.random.randrange(1, entries)

    def free(self) -> None:
        """Make room again."""
        self.is_full = False

    def _may_break(self, what: str) -> None:
        if self.random.random() < self.eio:
            self.faults += 1
            raise LedgerFull(f"I/O error of the simulated disk on {what}")
