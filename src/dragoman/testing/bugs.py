"""Planted bugs: each breaks one promise, so that the simulator can show that it would notice.

Each is a context manager that replaces one function of the core or of the simulated server. They
are what such bugs look like when somebody makes them by hand: small, and right most of the time.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from dragoman.core import (
    book,
    broker,
    desk,
    dispatch,
    endings,
    recovery,
    replies,
    submissions,
    timers,
    workers,
)
from dragoman.core.book import Book
from dragoman.core.deadlines import Due
from dragoman.core.events import (
    CreditGranted,
    DeliveryFailed,
    JobForwarded,
    JobSubmitted,
    ReplyReceived,
)
from dragoman.core.jobs import Job, Part
from dragoman.core.queues import Lane, Turns
from dragoman.core.registry import Registry, Worker
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record
from dragoman.testing import server
from dragoman.testing.server import Server

Bug = Callable[[], AbstractContextManager[None]]
BUGS: Final[dict[str, Bug]] = {}


def bug(plant: Callable[[], Iterator[None]]) -> Bug:
    """Put a planted bug on the list, under its own name."""
    planted = contextmanager(plant)
    BUGS[plant.__name__] = planted
    return planted


@contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Let `owner.name` (or `owner[name]`) be something else for a while."""
    is_table = isinstance(owner, dict)
    old = owner[name] if is_table else owner.__dict__[name]
    put = owner.__setitem__ if is_table else lambda key, what: setattr(owner, key, what)
    put(name, new)
    try:
        yield
    finally:
        put(name, old)


# --- durability -----------------------------------------------------------------------------------


@bug
def ack_before_sync() -> Iterator[None]:
    """Strict sends leave with their batch, whether it is on the disk or not."""

    def carry_out(self: Server, effects: Any) -> None:
        kept = list(effects)
        old(self, [e for e in kept if type(e).__name__ == "Append"])
        for effect in kept:
            if type(effect).__name__ != "Append":
                self._send(effect, self.broker.desk.book.last_seq)

    old = Server._carry_out
    with replaced(Server, "_carry_out", carry_out):
        yield


@bug
def send_after_failed_append() -> Iterator[None]:
    """A write that failed is taken for one that succeeded."""

    def failed(self: Server, why: str) -> None:
        self.world.fault("disk")
        self._is_writing = False
        self._in_hand = []
        while self._waiting:
            needed, item = self._waiting.pop(0)
            if not isinstance(item, tuple):
                self._send(item, needed)

    with replaced(Server, "_write_failed", failed):
        yield


@bug
def result_forgotten_after_recovery() -> Iterator[None]:
    """A replay takes the end of a job for the end of one of its attempts."""

    def ended(self: Book, record: Record) -> None:
        if replaying:
            self._part(record).state = JobState.QUEUED
            return
        old(self, record)

    def fold(records: Any, keep: int = 100_000) -> Book:
        replaying.append(True)
        try:
            return old_fold(records, keep)
        finally:
            replaying.clear()

    replaying: list[bool] = []
    old, old_fold = book._STEPS[Kind.ENDED], recovery.fold
    with replaced(book._STEPS, Kind.ENDED, ended), replaced(server, "fold", fold):
        yield


@bug
def request_lost_in_recovery() -> Iterator[None]:
    """The body of what waited is not read back."""

    def resume(found: Book, load_body: Any, *more: Any) -> Any:
        return old(found, lambda seq: Body("local", (b"?",)), *more)

    old = recovery.resume
    with replaced(server, "resume", resume):
        yield


# --- dispatch -------------------------------------------------------------------------------------


@bug
def lost_wake_up() -> Iterator[None]:
    """A worker that asks for more is not looked at until something else happens."""

    def granted(desk: desk.Desk, event: CreditGranted) -> None:
        worker = workers.heard(desk, event.worker)
        if worker is not None and worker.credit is not None:
            worker.credit += max(event.credit, 0)
            desk.registry.refresh(worker)

    with replaced(broker.HANDLERS, CreditGranted, granted):  # type: ignore[arg-type]
        yield


@bug
def double_lease() -> Iterator[None]:
    """A job whose worker is away goes to another at once, and stays with the first as well."""

    def go_absent(desk: desk.Desk, worker: Worker, reason: str, grace: float) -> None:
        held = dict(worker.held)
        workers._let_go(desk, worker, reason)
        worker.held = held
        desk.absent[worker.peer] = worker

    with replaced(workers, "_go_absent", go_absent):
        yield


@bug
def dispatch_to_a_left_worker() -> Iterator[None]:
    """A worker that left stays in the index of those that have room."""

    def remove(self: Registry, worker: Worker) -> None:
        pools = {s: self.pools[s] for s in worker.services}
        old(self, worker)
        for service, pool in pools.items():
            self.pools[service] = pool
            pool.members[worker.peer] = worker
            pool.place(worker)

    old = Registry.remove
    with replaced(Registry, "remove", remove):
        yield


@bug
def attempt_not_counted() -> Iterator[None]:
    """A second dispatch has the number of the first."""
    with replaced(dispatch, "_next_attempt", lambda part: max(part.attempt, 1)):
        yield


@bug
def unfair_queue() -> Iterator[None]:
    """Whoever was served keeps its turn."""
    with replaced(Turns, "served", lambda self, client: None):
        yield


@bug
def stuck_behind_a_refused_job() -> Iterator[None]:
    """Only the first of a lane is offered, although a worker refused just that one."""

    def first(self: Lane, suits: Callable[[Part], bool] | None = None) -> Any:
        head = self._head()
        return head if head is None or suits is None or suits(head[1][4]) else None

    with replaced(Lane, "first", first):
        yield


@bug
def capacity_ignored() -> Iterator[None]:
    """A window is as wide as the worker says, and one wider."""

    def has_room(self: Worker) -> bool:
        if self.credit is not None and self.credit_returns and self.credit == len(self.held):
            return not (self.is_draining or self.is_blocked)
        return bool(old(self))

    old = Worker.__dict__["has_room"].fget
    with replaced(Worker, "has_room", property(has_room)):
        yield


@bug
def credit_leak() -> Iterator[None]:
    """A job that never reached its worker keeps the credit it took."""

    def failed(desk: desk.Desk, event: DeliveryFailed) -> None:
        worker = desk.registry.workers.get(event.peer)
        before = worker.credit if worker else None
        old(desk, event)
        if worker is not None and before is not None and (worker.credit or 0) > before:
            worker.credit = before
            desk.registry.refresh(worker)

    old = broker.HANDLERS[DeliveryFailed]
    with replaced(broker.HANDLERS, DeliveryFailed, failed):  # type: ignore[arg-type]
        yield


# --- time -----------------------------------------------------------------------------------------


@bug
def lease_ignoring_beats() -> Iterator[None]:
    """A lease runs from the moment a worker joined, however often it beats."""

    def check(desk: desk.Desk, worker: Worker) -> None:
        workers.lose(desk, worker, "its lease is over")

    with replaced(timers._TABLE, Due.LEASE, check):  # type: ignore[arg-type]
        yield


@bug
def patience_ignored() -> Iterator[None]:
    """Nobody's patience ever ends."""
    with replaced(timers._TABLE, Due.PATIENCE, lambda desk, part: setattr(part, "patience", None)):  # type: ignore[arg-type]
        yield


@bug
def run_timeout_not_enforced() -> Iterator[None]:
    """An attempt may run for as long as it likes."""
    with replaced(timers._TABLE, Due.RUN, lambda desk, part: setattr(part, "runs_out", None)):  # type: ignore[arg-type]
        yield


@bug
def back_off_loses_the_part() -> Iterator[None]:
    """After its back-off a part is not put back in the queue."""

    def retry(desk: desk.Desk, part: Part) -> None:
        if part.queued_in is None:
            part.retry = None
        else:
            old(desk, part)

    old = timers._TABLE[Due.RETRY]
    with replaced(timers._TABLE, Due.RETRY, retry):  # type: ignore[arg-type]
        yield


@bug
def early_absence() -> Iterator[None]:
    """The timer of an earlier absence ends a later one."""

    def stop(desk: desk.Desk, worker: Worker) -> None:
        for timer in (worker.lease_due, worker.beat_due):
            desk.deadlines.cancel(timer)
        worker.lease_due = worker.beat_due = None

    def lose_absent(desk: desk.Desk, worker: Worker) -> None:
        if worker.peer in desk.absent:
            old(desk, worker)

    old = timers._TABLE[Due.ABSENCE]
    with (
        replaced(workers, "_stop_timers", stop),
        replaced(timers._TABLE, Due.ABSENCE, lose_absent),  # type: ignore[arg-type]
    ):
        yield


# --- jobs -----------------------------------------------------------------------------------------


@bug
def forgotten_cancel() -> Iterator[None]:
    """A cancelled job whose worker gives it up is tried again."""

    def take_back(desk: desk.Desk, part: Part, fault: Fault) -> None:
        asked, part.job.cancel_asked_at = part.job.cancel_asked_at, 0.0
        try:
            old(desk, part, fault)
        finally:
            part.job.cancel_asked_at = asked

    old = endings.take_back
    with replaced(replies, "take_back", take_back), replaced(workers, "take_back", take_back):
        yield


@bug
def stale_result_applied() -> Iterator[None]:
    """The attempt that a result answers is not looked at."""

    def reply_received(desk: desk.Desk, event: Any) -> None:
        event.attempt = None
        old(desk, event)

    old = broker.HANDLERS[ReplyReceived]
    with replaced(broker.HANDLERS, ReplyReceived, reply_received):  # type: ignore[arg-type]
        yield


@bug
def gather_ends_early() -> Iterator[None]:
    """A job for several ends with the first part that does."""

    def open_parts(self: Job) -> list[Part]:
        found = old(self)
        is_under_way = len(found) < len(self.parts)
        return [] if is_under_way and self.state is JobState.RUNNING else found

    old = Job.open_parts
    with replaced(Job, "open_parts", open_parts):
        yield


@bug
def duplicate_run_on_resubmission() -> Iterator[None]:
    """A job that has ended is taken for a new one when it is asked for again."""

    def known(desk: desk.Desk, event: Any) -> Job | None:
        job = old(desk, event)
        return job if job is None or not job.is_final else None

    old = submissions._known
    with replaced(submissions, "_known", known):
        yield


@bug
def hand_over_loses_the_client() -> Iterator[None]:
    """A job that is passed on answers the worker that passed it on."""

    def pass_on(desk: desk.Desk, part: Part, event: JobForwarded, target: Any) -> None:
        part.job.client = PeerId(event.worker)
        old(desk, part, event, target)

    old = endings.pass_on
    with replaced(replies, "pass_on", pass_on):
        yield


@bug
def memo_answers_the_wrong_body() -> Iterator[None]:
    """A memoised answer is found by its service alone."""

    def submitted(desk: desk.Desk, event: Any) -> None:
        memo = desk.book.memo
        if event.terms.memoize:
            for (service, _), job in list(memo.items()):
                if service == event.service:
                    memo[service, event.body.digest()] = job
        old(desk, event)

    old = broker.HANDLERS[JobSubmitted]
    with replaced(broker.HANDLERS, JobSubmitted, submitted):  # type: ignore[arg-type]
        yield


@bug
def dead_too_late() -> Iterator[None]:
    """A job is tried once more than it may be."""

    def take_back(desk: desk.Desk, part: Part, fault: Fault) -> None:
        if fault.code is FaultCode.WORKER_LOST:
            part.returned += 1
        old(desk, part, fault)

    old = endings.take_back
    with replaced(workers, "take_back", take_back):
        yield


@bug
def reply_to_a_client_that_left() -> Iterator[None]:
    """A client's good-bye is not remembered."""
    with replaced(desk.Desk, "part_with", lambda self, peer: None):
        yield
