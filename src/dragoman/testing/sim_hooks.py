"""Simulated webhooks: the server's queue of deliveries, and an endpoint that fails as it likes.

Each process has its own queue, which reads the ledger behind the position that the last process
kept. An endpoint may fail, and may fail after it got the delivery. It checks that what it gets is
on disk.
"""

from random import Random
from typing import Final

from dragoman.model.record import Kind, Record
from dragoman.model.terms import read_terms
from dragoman.server.webhook_queue import Delivery, WebhookQueue
from dragoman.testing.oracle import Oracle
from dragoman.testing.server import SimServer
from dragoman.testing.world import World

#: Seconds between two looks at the ledger, and attempts of a process before it gives up.
_EVERY: Final = 0.25
_ATTEMPTS: Final = 3


class SimHooks:
    """Delivers the ends of a simulated broker's jobs."""

    def __init__(self, world: World, server: SimServer, oracle: Oracle) -> None:
        self.world, self.server, self.oracle = world, server, oracle
        # Its own: worlds with and without webhooks draw the same faults.
        self._random = Random(world.seed)
        #: What is on the disk beside the ledger: where the next process reads on.
        self.kept = 0
        self.is_good = False
        #: Job -> the ends that the endpoint got, without those it denied.
        self.got: dict[str, list[Record]] = {}
        self._life = 0
        self._queue = WebhookQueue({}, 0, _ATTEMPTS)
        world.after(_EVERY, self._turn)

    def _turn(self) -> None:
        self.world.after(_EVERY, self._turn)
        if not self.server.is_up:
            return
        if self._life != self.server.life:
            self._life = self.server.life
            self._queue = WebhookQueue({}, self.kept, _ATTEMPTS)
        for record in self.server.ledger.read(self._queue.after):
            self._queue.read(record)
        if self._random.random() < 0.5:
            self.kept = self._queue.kept_position
        due = self._queue.due(self.world.now)
        for delivery in due:
            self._deliver(delivery)
        if due and not self.is_good and self._random.random() < 0.05:
            self._crash()

    def _crash(self) -> None:
        """Crash before the outcomes are on disk, and after the position is."""
        self.world.fault("crash after a webhook")
        self.kept = self._queue.kept_position
        self.server.crash()
        self.world.after(1.0, self.server.start)

    def _deliver(self, delivery: Delivery) -> None:
        delivery.attempts += 1
        draw = 1.0 if self.is_good else self._random.random()
        if draw >= 0.3:
            self._receive(delivery.record)
        # Below 0.45 the answer is lost: the endpoint has it, the broker does not know.
        if draw >= 0.45:
            self.server.submit(self._queue.delivered(delivery))
        elif (noted := self._queue.failed(delivery, "down", self.world.now)) is not None:
            self.server.submit(noted)

    def _receive(self, record: Record) -> None:
        """Check a delivery: it must be of an end that is on disk."""
        on_disk = list(self.server.ledger.read(record.seq - 1, 1))
        is_end = record.kind == Kind.ENDED and on_disk == [record]
        self.oracle.require(is_end, f"{record.job}: its webhook is told of {record.kind}")
        self.got.setdefault(record.job, []).append(record)

    # --- the end of the world -----------------------------------------------------------------

    def heal(self) -> None:
        """End the faults of the endpoint."""
        self.is_good = True

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to deliver."""
        is_read = self._queue.after >= self.server.ledger.last_seq
        return is_read and not self._queue and not self.server.unwritten()

    def check_finished(self) -> None:
        """Check that every end of a job with a webhook was delivered or given up."""
        hooked, notified = self._told()
        for job in hooked:
            is_told = job in notified
            self.oracle.require(is_told, f"{job}: its webhook was neither delivered nor given up")
            was_given_up = any("given up" in detail for detail in notified[job])
            self.oracle.require(
                was_given_up or self.got.get(job), f"{job}: its webhook was never delivered"
            )

    def _told(self) -> tuple[list[str], dict[str, list[str]]]:
        """Return the ended jobs with a webhook, and what the records say of deliveries."""
        hooked, ended = set[str](), list[str]()
        notified: dict[str, list[str]] = {}
        for record in self.server.ledger.read():
            if record.kind == Kind.SUBMITTED and read_terms(record.terms).webhook:
                hooked.add(record.job)
            elif record.kind == Kind.ENDED and record.job in hooked:
                ended.append(record.job)
            elif record.kind == Kind.NOTIFIED:
                notified.setdefault(record.job, []).append(record.detail)
        return ended, notified
