"""Checks each record against the earlier ones, independently of the broker's code.

Attempts rise by one. No part runs twice at once. Nothing happens to a job after its end. A stale
result is not applied. A worker is lost only after a silent lease. Credit never goes below zero.
Limits hold. Unique keys have one job.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from dragoman.core.broker import Broker
from dragoman.core.events import (
    CreditGranted,
    DeliveryFailed,
    Event,
    PeerLeft,
    ResourcesSettled,
    TimeAdvanced,
    WorkerJoined,
)
from dragoman.core.registry import LENT_EACH
from dragoman.dialects.mesh.settings import NAME as MESH
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.body import Body
from dragoman.model.labels import PREFETCH
from dragoman.model.names import PeerId, link_of
from dragoman.model.record import Kind, Record
from dragoman.model.retry import NO_RETRY
from dragoman.model.schedule import read_schedule
from dragoman.model.terms import read_terms
from dragoman.testing.family_checker import FamilyChecker
from dragoman.testing.limit_checker import LimitChecker
from dragoman.testing.result_checker import ResultChecker
from dragoman.testing.unique_checker import UniqueChecker
from dragoman.testing.workload import LINK

_LOST: Final = "worker_lost"
_UNRUN: Final = ("handed_back", "undelivered")


class CheckedPart:
    """One part: its attempts, its returns, its failures, and the worker that has it."""

    def __init__(self) -> None:
        self.attempt = 0
        self.returned = 0
        self.failures = 0
        #: No attempt may start before.
        self.retry_at = 0.0
        self.peer = ""
        self.worker = ""
        self.is_over = False


class CheckedJob:
    """One job: its client, its parts, and its final state."""

    def __init__(self, record: Record) -> None:
        self.client = record.client
        self.terms = read_terms(record.terms)
        self.starts_at = self.terms.starts_at(record.at)
        self.parts: dict[int, CheckedPart] = {}
        self.bound = 0
        self.has_moved = False
        self.cancelled = False
        self.state = ""

    def part(self, index: int) -> CheckedPart:
        """Return a part; create it if it is new."""
        return self.parts.setdefault(index, CheckedPart())


class RecordChecker:
    """The state that records and worker events imply."""

    def __init__(self) -> None:
        self.jobs: dict[str, CheckedJob] = {}
        self.keys: dict[tuple[str, str], str] = {}
        #: Other ids under which jobs were requested -> job id.
        self.aliases: dict[str, str] = {}
        #: Live sessions: peer -> its join event (None after a restart).
        self.sessions: dict[str, WorkerJoined | None] = {}
        self.heard_at: dict[str, float] = {}
        #: Absent peers -> when they are lost.
        self.away: dict[str, float] = {}
        #: Remaining credit of workers whose credit does not return; `window` is for the others.
        self.credit: dict[str, int] = {}
        self.window: dict[str, int] = {}
        self.held: Counter[str] = Counter()
        #: Workers with prefetch -> how many jobs each runs at a time.
        self.slots: dict[str, int] = {}
        #: The parts that each worker holds, in the order of dispatch.
        self.order: dict[str, dict[tuple[str, int], None]] = {}
        #: The workers lost in this event -> the parts that cannot have begun there.
        self.unstarted: dict[str, set[tuple[str, int]]] = {}
        self._last_joined: dict[str, WorkerJoined] = {}
        #: Paused services, drained workers, and the last tick of each schedule.
        self.paused: set[str] = set()
        self.drained: set[str] = set()
        self.ticks: dict[str, int] = {}
        self.limits = LimitChecker()
        self.uniques = UniqueChecker()
        self.families = FamilyChecker()
        self.results = ResultChecker()
        self.replaying = False
        self.now = 0.0

    @classmethod
    def of(cls, ledger: MemoryLedger, away_until: float) -> "RecordChecker":
        """Rebuild the checker after a crash. Workers that held a part are away."""
        checker = cls()
        checker.replaying = True
        for record in ledger.read():
            checker.take(record, None, None)
        checker.replaying = False
        checker.sessions.clear()
        checker.credit.clear()
        for job in checker.jobs.values():
            for part in job.parts.values():
                if part.peer:
                    checker.away[part.peer] = away_until
        return checker

    def client_of(self, job: str) -> str:
        """Return the client that gets a job's replies."""
        found = self.jobs.get(self.aliases.get(job, job))
        return found.client if found else ""

    # --- events -------------------------------------------------------------------------------

    def observe(self, event: Event | None, now: float) -> None:
        """Note what an event says about its worker."""
        self.now = now
        self.unstarted.clear()
        self.families.between_events()
        # Another peer may send `ResourcesSettled` for a worker, so it is no sign of life.
        peer = getattr(event, "worker", None) if type(event) is not ResourcesSettled else None
        if peer in self.sessions or type(event) is WorkerJoined:
            self.heard_at[peer] = now  # type: ignore[index]
        if type(event) is WorkerJoined:
            self.away.pop(event.worker, None)
            self.sessions[event.worker] = event
            self._set_credit(event)
        elif type(event) is CreditGranted and event.worker in self.sessions:
            for account in (self.credit, self.window, self.slots):
                if event.worker in account:
                    account[event.worker] += max(event.credit, 0)
        elif type(event) is DeliveryFailed:
            self._undelivered(event)
        elif type(event) is PeerLeft and event.grace > 0 and event.peer in self.sessions:
            self.away[event.peer] = now + event.grace

    def _set_credit(self, event: WorkerJoined) -> None:
        self.credit.pop(event.worker, None)
        self.window.pop(event.worker, None)
        if event.credit is not None:
            account = self.window if event.credit_returns else self.credit
            account[event.worker] = event.credit
        self.slots.pop(event.worker, None)
        if event.worker in self.window and PREFETCH in event.labels:
            self.slots[event.worker] = self.window[event.worker]
            self.window[event.worker] += int(event.labels[PREFETCH])

    def _undelivered(self, event: DeliveryFailed) -> None:
        job = self.jobs.get(event.job or "")
        held = [p for p in job.parts.values() if p.peer == event.peer] if job else []
        if event.peer in self.credit and any(p.attempt == event.attempt for p in held):
            self.credit[event.peer] += 1

    # --- records ------------------------------------------------------------------------------

    def take(self, record: Record, body: Body | None, event: Event | None) -> None:
        """Check one record against the earlier ones."""
        step = _STEPS.get(record.kind)
        if step is not None:
            step(self, record, body, event)
        self.families.take(record)
        self.results.take(record)

    def _submitted(self, record: Record, body: Body | None, event: Event | None) -> None:
        assert record.job not in self.jobs, f"{record.job} is submitted twice"
        self.jobs[record.job] = CheckedJob(record)
        self.uniques.submitted(record, self.jobs[record.job].terms)
        if record.key:
            key = (record.principal, record.key)
            assert key not in self.keys, f"{record.job}: its key belongs to {self.keys.get(key)}"
            self.keys[key] = record.job

    def _adopted(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.jobs[record.job].client = record.client
        self.aliases[record.detail or record.job] = record.job

    def _bound(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.jobs[record.job].bound = record.detail.count("\n") + 1

    def _moved(self, record: Record, body: Body | None, event: Event | None) -> None:
        job = self._open(record)
        part = job.part(record.part)
        assert not part.peer, f"{record.job}/{record.part} moves while it runs"
        part.attempt, part.returned = record.attempt, record.count
        job.bound, job.has_moved = max(job.bound, record.part + 1), True

    def _cancel_asked(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.jobs[record.job].cancelled = True

    def _dispatched(self, record: Record, body: Body | None, event: Event | None) -> None:
        job = self._open(record)
        part = job.part(record.part)
        where = f"{record.job}/{record.part}"
        assert not job.cancelled, f"{where} starts although it was cancelled"
        assert record.service not in self.paused, f"{where} starts although its service is paused"
        assert record.worker not in self.drained, f"{where} starts on a drained worker"
        assert not part.peer, f"{where} is dispatched to {record.peer} while {part.peer} has it"
        skipped = record.attempt - part.attempt - 1
        # After a move, the parts of a job share one attempt counter.
        is_next = skipped >= 0 if job.has_moved and job.bound > 1 else skipped == 0
        assert is_next, f"{where}: attempt {record.attempt} after {part.attempt}"
        assert record.at >= job.starts_at - 1e-6, f"{where} starts before its delay is over"
        assert record.at >= part.retry_at - 1e-6, f"{where} starts before its back-off is over"
        part.returned += skipped
        part.attempt, part.peer, part.worker = record.attempt, record.peer, record.worker
        self.limits.start(part, record, job.terms)
        self.uniques.started(record)
        self.held[record.peer] += 1
        self.order.setdefault(record.peer, {})[record.job, record.part] = None
        tries, allowed = part.attempt - part.returned - part.failures, job.terms.max_attempts
        assert tries <= max(allowed, 1), f"{where} is tried {tries} times, allowed are {allowed}"
        if not self.replaying:
            self._spend(record, where)

    def _spend(self, record: Record, where: str) -> None:
        peer = record.peer
        assert peer in self.sessions, f"{where} is dispatched to {peer}, which left"
        if peer in self.credit:
            self.credit[peer] -= 1
            assert self.credit[peer] >= 0, f"{where}: {peer} had no credit"
        if peer in self.window and (joined := self.sessions[peer]) is not None:
            lent = self._lent(peer, joined.credit)
            assert self.held[peer] <= self.window[peer] + lent, (
                f"{where}: {peer} holds more than its window"
            )

    def _lent(self, peer: str, credit: int | None) -> int:
        """Return how many slots the parents that a worker holds lend to other jobs."""
        parents = sum(self.families.has_open(job) for job, _ in self.order.get(peer, ()))
        return min(parents, LENT_EACH * (credit or 0))

    def _free(self, part: CheckedPart) -> None:
        if part.peer:
            self.held[part.peer] -= 1
            order = self.order.get(part.peer, {})
            for key in [key for key in order if self.jobs[key[0]].parts.get(key[1]) is part]:
                del order[key]
            self.limits.end(part)
            part.peer = ""

    def _requeued(self, record: Record, body: Body | None, event: Event | None) -> None:
        job = self._open(record)
        job.has_moved = job.has_moved or bool(record.target)
        part = job.part(record.part)
        self._note_unstarted(part.peer, event)
        if record.fault == _LOST:
            self._check_lost(part, record, event)
            is_free = (record.job, record.part) in self.unstarted.get(part.peer, ())
            assert not is_free or part.returned >= job.terms.max_attempts, (
                f"{record.job} had not begun at {part.peer}, and its attempt counts"
            )
        elif record.fault in _UNRUN:
            part.returned += 1
        else:
            self._check_retry(job, part, record)
        part.retry_at = record.at + record.count / 1000
        self._free(part)

    def _note_unstarted(self, peer: str, event: Event | None) -> None:
        """Note, once per event, which parts of a lost worker wait behind those that may run."""
        if self.replaying or peer in self.unstarted or peer not in self.slots:
            return
        if type(event) in (PeerLeft, TimeAdvanced, WorkerJoined):
            running = self.slots[peer] + self._lent(peer, self.slots[peer])
            self.unstarted[peer] = set(list(self.order.get(peer, {}))[running:])

    def _check_retry(self, job: CheckedJob, part: CheckedPart, record: Record) -> None:
        """Check that a failed attempt may be retried."""
        part.failures += 1
        where, policy = f"{record.job}/{record.part}", job.terms.retry or NO_RETRY
        assert not job.cancelled, f"{where} is retried although it was cancelled"
        assert part.failures <= policy.times, (
            f"{where} is retried {part.failures} times, allowed are {policy.times}"
        )
        assert record.fault in policy.on, f"{where} is retried after {record.fault}"
        assert (
            not record.deadline_at or record.at + record.count / 1000 <= record.deadline_at + 2e-3
        )
        if (asked := _asked(record)) is not None:
            assert record.count == round(asked * 1000), f"{where} runs again at another time"
        is_permanent = record.detail.startswith("Permanent:")
        assert not is_permanent, f"{where} is retried after a permanent failure"

    def _check_lost(self, part: CheckedPart, record: Record, event: Event | None) -> None:
        """Check that a lost worker left, joined without the job, or was silent for its lease."""
        if self.replaying:
            return
        if type(event) is PeerLeft and event.peer == part.peer:
            assert not event.grace, f"{record.job} does not wait for {part.peer} to come back"
            return
        if type(event) is WorkerJoined and event.worker == part.peer:
            is_denied = event.holds is not None and record.job not in event.holds
            assert is_denied, f"{record.job} is taken from {part.peer}, which says it has it"
            return
        assert type(event) is TimeAdvanced, (
            f"{record.job} is taken from {part.peer} without a reason"
        )
        if part.peer in self.away:
            assert self.now >= self.away[part.peer] - 1e-6, (
                f"{part.peer} is lost before its grace ends"
            )
            return
        joined = self.sessions.get(part.peer) or self._last_joined.get(part.peer)
        lease = _lease(joined) if joined is not None else None
        assert lease is not None, f"{part.peer} is lost without a lease"
        silent = self.now - self.heard_at[part.peer]
        assert silent >= lease - 1e-6, f"{part.peer} is lost after {silent:.3f} of {lease:.3f} s"

    def _forwarded(self, record: Record, body: Body | None, event: Event | None) -> None:
        job = self._open(record)
        job.has_moved = True
        part = job.part(record.part)
        part.returned, part.failures = part.attempt, 0
        self._free(part)

    def _gathered(self, record: Record, body: Body | None, event: Event | None) -> None:
        part = self._open(record).part(record.part)
        assert not part.is_over, f"{record.job}/{record.part} ends twice"
        self._check_result(record, body, part, event)
        part.is_over = True
        self._free(part)

    def _ended(self, record: Record, body: Body | None, event: Event | None) -> None:
        job = self._open(record)
        self.uniques.ended(record)
        if job.bound <= 1:
            self._check_result(record, body, job.part(0), event)
        elif record.state == "succeeded":
            over = sum(p.is_over for p in job.parts.values())
            assert over == job.bound, f"{record.job} succeeds with {over} of {job.bound} parts"
        self._check_given_up(job, record)
        job.state = record.state
        for part in job.parts.values():
            self._free(part)

    def _check_given_up(self, job: CheckedJob, record: Record) -> None:
        """Check that a task that asked for another try had none left."""
        asked, part = _asked(record), job.part(record.part)
        policy = job.terms.retry or NO_RETRY
        if asked is None or job.bound > 1 or job.cancelled or part.failures >= policy.times:
            return
        if link_of(PeerId(part.peer)) == MESH:
            return  # another broker, which has used all retries itself
        is_late = record.deadline_at and record.at + asked >= record.deadline_at - 1e-6
        assert is_late, f"{record.job} has failed with {part.failures} of {policy.times} retries"

    def _check_result(
        self, record: Record, body: Body | None, part: CheckedPart, event: Event | None
    ) -> None:
        """Check that a result belongs to the running attempt and its worker."""
        if record.fault == "exhausted":
            self._check_lost(part, record, event)
        if body is None or record.state != "succeeded" or body.dialect != LINK:
            return
        _, attempt, worker = body.parts[:3]
        where = f"{record.job}/{record.part}"
        assert worker == part.worker.encode(), f"{where}: {worker!r} answers for {part.worker}"
        assert attempt in (b"", b"%d" % part.attempt), f"{where}: stale result {attempt!r} applied"

    def _joined(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.sessions.setdefault(record.peer, None)

    def _left(self, record: Record, body: Body | None, event: Event | None) -> None:
        joined = self.sessions.pop(record.peer, None)
        if joined is not None:
            self._last_joined[record.peer] = joined
        self.credit.pop(record.peer, None)
        self.window.pop(record.peer, None)

    def _paused(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.paused.add(record.service)

    def _resumed(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.paused.discard(record.service)

    def _drained(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.drained.add(record.worker)

    def _undrained(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.drained.discard(record.worker)

    def _limited(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.limits.limited(record)

    def _ticked(self, record: Record, body: Body | None, event: Event | None) -> None:
        name = read_schedule(record.detail).name
        assert record.count > self.ticks.get(name, 0), f"{name} ticks twice at {record.count}"
        self.ticks[name] = record.count

    def _started(self, record: Record, body: Body | None, event: Event | None) -> None:
        self.sessions.clear()

    def _open(self, record: Record) -> CheckedJob:
        job = self.jobs[record.job]
        assert not job.state, f"{record.job} is {record.kind} although it ended {job.state}"
        return job

    # --- comparing ----------------------------------------------------------------------------

    def compare(self, broker: Broker) -> None:
        """Compare the credit of each worker with the broker's."""
        for peer, worker in broker.state.registry.workers.items():
            if worker.credit is not None and not worker.credit_returns and peer in self.credit:
                mine = self.credit[peer]
                assert worker.credit == mine, f"{peer} has credit {mine}, not {worker.credit}"


def _asked(record: Record) -> float | None:
    """Return after how many seconds a failed task asked to run again."""
    begin = "TryAgain: after "
    if not record.detail.startswith(begin):
        return None
    return float(record.detail.removeprefix(begin).partition(" ")[0])


def _lease(joined: WorkerJoined) -> float | None:
    missed = min(joined.missed_allowed, joined.missed_allowed_busy or joined.missed_allowed)
    return joined.beat_every * missed if joined.beat_every else None


_STEPS: Final[dict[str, Callable[[RecordChecker, Record, Body | None, Event | None], None]]] = {
    Kind.SUBMITTED: RecordChecker._submitted,
    Kind.ADOPTED: RecordChecker._adopted,
    Kind.BOUND: RecordChecker._bound,
    Kind.MOVED: RecordChecker._moved,
    Kind.CANCEL_ASKED: RecordChecker._cancel_asked,
    Kind.DISPATCHED: RecordChecker._dispatched,
    Kind.REQUEUED: RecordChecker._requeued,
    Kind.FORWARDED: RecordChecker._forwarded,
    Kind.GATHERED: RecordChecker._gathered,
    Kind.ENDED: RecordChecker._ended,
    Kind.JOINED: RecordChecker._joined,
    Kind.RESYNCED: RecordChecker._joined,
    Kind.LEFT: RecordChecker._left,
    Kind.STARTED: RecordChecker._started,
    Kind.PAUSED: RecordChecker._paused,
    Kind.RESUMED: RecordChecker._resumed,
    Kind.DRAINED: RecordChecker._drained,
    Kind.UNDRAINED: RecordChecker._undrained,
    Kind.LIMITED: RecordChecker._limited,
    Kind.TICKED: RecordChecker._ticked,
}
