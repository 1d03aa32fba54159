"""The oracle: observes every event, effect and crash, and reports broken promises.

It derives the expected state from records and sends, and compares it with the broker's. It decides
nothing, and reads the broker only to compare.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dragoman.core import view
from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Dismiss, Effect, SendReply, SendStatus
from dragoman.core.events import Event, PeerLeft, ReplyKind
from dragoman.core.job_store import JobStore
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold
from dragoman.core.why import why
from dragoman.dialects.base import Send
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind
from dragoman.testing.fairness import Fairness
from dragoman.testing.record_checker import RecordChecker
from dragoman.testing.workload import LINK
from dragoman.testing.world import World

#: Fields of events that name the sender.
_SPEAKERS: Final = ("client", "worker")
#: Tolerated delay of a timer in seconds: clocks are floats.
_LATE: Final = 1e-6


#: Fairness is checked where the state is checked at least this often.
CLOSELY: Final = 5


class PromiseBroken(AssertionError):
    """A promise was broken; the message says which and where."""


class Oracle:
    """Watches one simulated world."""

    def __init__(self, world: World, *, every: int = 1) -> None:
        self.world = world
        #: The whole state is checked after this many events.
        self.every = every
        self.checker = RecordChecker()
        self.fairness = Fairness()
        self.ledger: Callable[[], MemoryLedger] | None = None
        #: Peers that left and have not sent anything since.
        self._left: set[str] = set()
        #: Strict jobs whose acknowledgement reached a client.
        self.acknowledged: set[str] = set()
        #: Final states that were sent, by job.
        self._final_states: dict[str, JobState] = {}
        #: The first part of each request, by job.
        self.questions: dict[str, bytes] = {}
        self._events = 0

    # --- what happens -------------------------------------------------------------------------

    def handled(self, event: Event | None, effects: Sequence[Effect], broker: Broker) -> None:
        """Check the effects of an event (None: of the start)."""
        self._events += 1
        self._observe(event, broker.state.now)
        records = []
        for effect in effects:
            if type(effect) is Append:
                records.append(effect.record)
                self._check_record(effect, event)
            else:
                self._check_peer(effect)
                self._check_result(effect, broker.state.now)
        if self.every <= CLOSELY:
            self.fairness.observe(records, broker.state)
        if self._events % self.every == 0:
            self.check_state(broker)

    def _observe(self, event: Event | None, now: float) -> None:
        for name in _SPEAKERS:
            self._left.discard(getattr(event, name, None) or "")
        if type(event) is PeerLeft:
            self._left.add(event.peer)
        self.checker.observe(event, now)

    def _check_record(self, append: Append, event: Event | None) -> None:
        record, body = append.record, append.body
        if record.kind == Kind.SUBMITTED and body is not None and body.parts:
            self.questions[record.job] = body.parts[0]
        self.checker.take(record, body, event)

    def _check_peer(self, effect: Effect) -> None:
        what = type(effect).__name__
        if isinstance(effect, SendReply | SendStatus):
            peer = effect.client
        elif isinstance(effect, Dismiss):
            peer = effect.peer
        else:
            assert not isinstance(effect, Append)
            peer = effect.worker
            self.require(peer in self.checker.sessions, f"{what} to {peer}, which has no session")
        self.require(peer not in self._left, f"{what} to {peer}, which left")
        if type(effect) is SendReply:
            self._check_reply(effect)
        elif type(effect) is SendStatus and effect.status is None:
            message = f"{effect.job} was acknowledged and is unknown now"
            self.require(effect.job not in self.acknowledged, message)

    def _check_result(self, effect: Effect, now: float) -> None:
        if isinstance(effect, SendReply | SendStatus):
            job = self.checker.aliases.get(effect.job, effect.job)
            self.checker.results.check(effect, job, now)

    def _check_reply(self, reply: SendReply) -> None:
        client = self.checker.client_of(reply.job)
        is_of_job = reply.kind is not ReplyKind.FINAL or reply.state is not None
        if is_of_job:
            self.require(
                client == reply.client, f"{reply.job}: a reply for {client} goes to {reply.client}"
            )
        is_ours = reply.body.dialect == LINK
        if is_ours and reply.kind is ReplyKind.FINAL and reply.state is JobState.SUCCEEDED:
            asked = self.questions.get(self.checker.aliases.get(reply.job, reply.job))
            answered = reply.body.parts[0]
            self.require(answered == asked, f"{reply.job}: {asked!r} is answered by {answered!r}")

    def leaving(self, effect: Effect | Send, needed: int, durable: int) -> None:
        """Check a message as it leaves the process."""
        if not getattr(effect, "is_strict", False):
            return
        message = f"{type(effect).__name__} is sent at {durable} durable records but needs {needed}"
        self.require(needed <= durable, message)
        if type(effect) is SendReply and effect.kind is ReplyKind.FINAL:
            self._check_final_state(effect.job, effect.state)
        elif type(effect) is SendStatus and effect.status is not None:
            self._check_final_state(effect.job, effect.status.state)

    def _check_final_state(self, job: str, state: JobState | None) -> None:
        if state in FINAL:
            assert state is not None
            before = self._final_states.setdefault(job, state)
            self.require(before is state, f"{job} was {before} and is {state} now")

    def client_received(self, reply: SendReply) -> None:
        """Note that a client received a reply."""
        is_ack = reply.kind in (ReplyKind.QUEUED, ReplyKind.DISPATCHED)
        if is_ack and reply.is_strict:
            self.acknowledged.add(reply.job)

    # --- crashes ------------------------------------------------------------------------------

    def crashing(self, broker: Broker, unwritten: Iterable[Entry]) -> None:
        """Check a process that crashes."""
        self.compare(broker, unwritten)

    def compare(self, broker: Broker, unwritten: Iterable[Entry]) -> None:
        """Fold all records and compare the result with the live state."""
        assert self.ledger is not None
        records = [*self.ledger().read(), *(e.record for e in unwritten)]
        folded, live = fold(records), broker.state.store
        self.require(folded.last_seq == live.last_seq, "records are missing")
        self.require(folded.sessions == live.sessions, "sessions differ after a replay")
        self.require(folded.counts == live.counts, "counts differ after a replay")
        mine, theirs = live.as_recorded(), folded.as_recorded()
        for job in mine:
            self.require(
                mine[job] == theirs.get(job),
                f"{job} is {mine[job]}\nand after a replay {theirs.get(job)}",
            )
        self.require(
            live.queue.as_recorded() == folded.queue.as_recorded(),
            "schedules, dead letters, paused services or drained workers differ after a replay",
        )
        self.require(set(live.keys) <= set(folded.keys), "keys are forgotten in a replay")
        self.require(set(live.memo) <= set(folded.memo), "memos are forgotten in a replay")

    def recovered(self, store: JobStore, now: float, limits: Limits) -> None:
        """Check what a new process found on disk."""
        for job in sorted(self.acknowledged):
            is_there = store.find(JobId(job)) is not None
            self.require(is_there, f"{job} was acknowledged and is not on the disk")
        for job, state in self._final_states.items():
            found = store.find(JobId(job))
            if found is not None and found.terms.strict:
                is_same = found.state is state
                self.require(is_same, f"{job} was {state} and is {found.state} after a restart")
        assert self.ledger is not None
        self.checker = RecordChecker.of(self.ledger(), now + limits.recovery_grace)
        self.fairness = Fairness()
        self._left.clear()

    # --- looking ------------------------------------------------------------------------------

    def check_state(self, broker: Broker) -> None:
        """Check the whole state."""
        broker.validate()
        self.checker.compare(broker)
        self._check_deadlines(broker)
        jobs = list(broker.state.store.jobs)
        if jobs:
            self.require(why(broker.state, jobs[-1]).words, "why has no message")
        view.services(broker.state), view.workers(broker.state), view.totals(broker.state)

    def _check_deadlines(self, broker: Broker) -> None:
        """Check that nothing is overdue, unless a timer is due right now."""
        due = broker.next_deadline()
        if due is not None and due <= broker.state.now:
            return
        now = broker.state.now - _LATE
        for job in broker.state.store.jobs.values():
            if job.is_final:
                continue
            terms = job.terms
            self.require(
                not job.deadline_at or now <= job.deadline_at,
                f"{job.id} is open after its deadline",
            )
            asked = job.cancel_asked_at
            over = bool(asked) and now > asked + terms.cancel_grace
            self.require(not over, f"{job.id}: its cancel is overdue")
            for part in job.open_parts():
                runs = part.state is JobState.RUNNING and terms.run_timeout is not None
                late = runs and now > part.dispatched_at + (terms.run_timeout or 0)
                self.require(not late, f"{part.key} runs after its run_timeout")
                waits = part.attempt == 0 and terms.queue_timeout is not None
                late = waits and now > job.starts_at + (terms.queue_timeout or 0)
                self.require(not late, f"{part.key} waits after its queue_timeout")

    def check_finished(self, broker: Broker) -> None:
        """Check a world that had time to finish everything."""
        self.check_state(broker)
        for job in broker.state.store.jobs.values():
            message = f"{job.id} never ends: {why(broker.state, job.id)}"
            self.require(job.is_final, message)

    def require(self, claim: object, message: str) -> None:
        """Raise `PromiseBroken` if a claim is false."""
        if not claim:
            raise PromiseBroken(message)
