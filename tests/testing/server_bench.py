"""A simulated server on a disk that may be full, and everything that it sent."""

from typing import Any

from dragoman.core.events import Event
from dragoman.core.limits import Limits
from dragoman.ledger.base import LedgerFull
from dragoman.ledger.disk import ReliableDisk
from dragoman.ledger.memory import MemoryLedger
from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.oracle import Oracle
from dragoman.testing.pass_through_side import PassThroughSide
from dragoman.testing.server import SimServer
from dragoman.testing.world import World


class FullDisk(ReliableDisk):
    is_full = False

    def write(self, entries: int) -> None:
        if self.is_full:
            raise LedgerFull("full")


class ServerBench:
    """A server, and everything it sent."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.is_faulty = False
        self.heard: list[Any] = []
        self.disk = FullDisk()
        self.oracle = Oracle(self.world)
        self.server = SimServer(
            self.world,
            Network(self.world, MessageFaults()),
            MemoryLedger(self.disk),
            lambda: {"local": PassThroughSide()},
            lambda link, address: (address, self.heard.append),
            self.oracle,
            Limits(),
        )
        self.server.sync_time = 1.0
        self.run(2.0)

    def say(self, *events: Event) -> None:
        for event in events:
            self.server.arrive("local", "somebody", event)

    def run(self, seconds: float) -> list[str]:
        self.heard.clear()
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        self.world.now = until
        return [type(e).__name__ for e in self.heard]
