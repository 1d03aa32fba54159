"""Planted bugs of durability: a sent message is not on disk, or a restart loses it.

They break "a record is durable before its consequence leaves the process", or the fold of records
at start.
"""

from collections.abc import Iterator
from typing import Any, Final

from dragoman.core import job_store, recovery
from dragoman.core.job_store import JobStore
from dragoman.model.body import Body
from dragoman.model.job import JobState
from dragoman.model.record import Kind, Record
from dragoman.testing import server
from dragoman.testing.bugs.planting import Bugs, replaced
from dragoman.testing.server import SimServer

BUGS: Final = Bugs()


@BUGS.add
def ack_before_sync() -> Iterator[None]:
    """Strict messages are sent before their batch is on disk."""

    def carry_out(self: SimServer, effects: Any) -> None:
        kept = list(effects)
        old(self, [e for e in kept if type(e).__name__ == "Append"])
        for effect in kept:
            if type(effect).__name__ != "Append":
                self._send(effect, self.broker.state.store.last_seq)

    old = SimServer._carry_out
    with replaced(SimServer, "_carry_out", carry_out):
        yield


@BUGS.add
def send_after_failed_append() -> Iterator[None]:
    """A failed write counts as a successful one."""

    def failed(self: SimServer, why: str) -> None:
        self.world.fault("disk")
        self._is_writing = False
        self._in_hand = []
        while self._waiting:
            needed, item = self._waiting.pop(0)
            if not isinstance(item, tuple):
                self._send(item, needed)

    with replaced(SimServer, "_write_failed", failed):
        yield


@BUGS.add
def result_forgotten_after_recovery() -> Iterator[None]:
    """A replay treats the end of a job as the end of one attempt."""

    def ended(self: JobStore, record: Record) -> None:
        if replaying:
            self._part(record).state = JobState.QUEUED
            return
        old(self, record)

    def fold(records: Any, keep: int = 100_000) -> JobStore:
        replaying.append(True)
        try:
            return old_fold(records, keep)
        finally:
            replaying.clear()

    replaying: list[bool] = []
    old, old_fold = job_store._STEPS[Kind.ENDED], recovery.fold
    with replaced(job_store._STEPS, Kind.ENDED, ended), replaced(server, "fold", fold):
        yield


@BUGS.add
def request_lost_in_recovery() -> Iterator[None]:
    """The bodies of queued requests are not read back."""

    def resume(found: JobStore, load_body: Any, *more: Any) -> Any:
        return old(found, lambda seq: Body("local", (b"?",)), *more)

    old = recovery.resume
    with replaced(server, "resume", resume):
        yield
