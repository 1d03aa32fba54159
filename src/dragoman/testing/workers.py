"""Simulated workers of the core level: they join, beat, run, refuse, forward, hang and crash."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.effects import (
    Dismiss,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendReply,
    SendWork,
)
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    JobForwarded,
    JobSubmitted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.labels import PREFETCH
from dragoman.model.names import JobId
from dragoman.model.retry import try_again_text
from dragoman.model.target import ANY, Labelled
from dragoman.testing.workload import LINK, SERVICES, child_of, children_of, is_stubborn
from dragoman.testing.world import World

#: Outcomes of a job with their shares; the rest succeeds.
OUTCOMES: Final = (
    ("fail", 0.08),
    ("fail_for_good", 0.02),
    ("hand_back", 0.07),
    ("forward", 0.06),
    ("ask", 0.05),
    ("hang", 0.03),
    ("die", 0.03),
    ("cancelled", 0.01),
)

#: Seconds after which a worker gives back a job that waits for a slot.
_GIVE_BACK_AFTER: Final = 1.0

SendEvent = Callable[[Event], None]
Key = tuple[JobId, int]


class SimWorker:
    """One worker. `send` sends an event to the broker."""

    def __init__(self, world: World, offer: WorkerJoined, send: SendEvent) -> None:
        self.world = world
        self.offer = offer
        self.name = offer.name
        self.send = send
        random = world.random
        #: Whether it reports the jobs it holds, and the attempt of an answer.
        self.reports_holds = random.random() < 0.7
        self.reports_attempt = random.random() < 0.8
        self.is_good = False
        self.is_up = False
        self.life = 0
        #: All jobs that it holds.
        self.running: dict[Key, SendWork] = {}
        #: Those that wait for one of its slots, oldest first.
        self.waiting: deque[Key] = deque()
        self.results: dict[Key, ReplyReceived | JobForwarded] = {}
        #: The children that it submitted.
        self.children: dict[JobId, JobSubmitted] = {}
        self.heard_at = 0.0

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start without jobs, and join."""
        if self.is_up:
            return
        self.is_up = True
        self.life += 1
        self.running, self.results = {}, {}
        self.waiting.clear()
        self.join()
        self._beat(self.life)

    def crash(self) -> None:
        """Stop at once and lose everything."""
        self.is_up = False

    def leave(self, grace: float) -> None:
        """Leave, perhaps with a grace to return."""
        if self.is_up:
            self.send(PeerLeft(self.offer.worker, "left", grace))
            self.is_up = False

    def reconnect(self) -> None:
        """Join again and keep running jobs."""
        if not self.is_up:
            self.is_up = True
            self.life += 1
            self.join()
            self._beat(self.life)
            self.waiting.clear()
            for key in self.running:
                duration = 0.01 if self.is_good else self.world.random.choice((0.3, 2.0, 6.0))
                self.world.after(duration, self._finish, self.life, key, "succeed")

    def join(self) -> None:
        """Register, or repeat what it offers and holds."""
        self.heard_at = self.world.now
        holds = frozenset(job for job, _ in self.running) if self.reports_holds else None
        self.send(replace(self.offer, holds=holds))

    def _beat(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return
        every = self.offer.beat_every or 2.0
        if self.world.now - self.heard_at > 4 * every:
            self.join()
        elif self.offer.beat_every is not None:
            self.send(BeatReceived(self.offer.worker))
        self.world.after(every, self._beat, life)

    # --- what the broker says -----------------------------------------------------------------

    def receive(self, effect: object) -> None:
        """Handle one effect of the broker."""
        if not self.is_up:
            return
        self.heard_at = self.world.now
        _HANDLERS[type(effect)](self, effect)

    def _work(self, work: SendWork) -> None:
        key = (work.job, work.attempt)
        if key in self.results:
            # A broker that lost a relaxed job may dispatch it again as the same attempt. A worker
            # that has finished it repeats its result, as our own workers do.
            self.send(self.results[key])
            return
        if key in self.running:
            return
        self.running[key] = work
        if self._has_slot():
            self._begin(key)
            return
        self.waiting.append(key)
        self.world.after(_GIVE_BACK_AFTER, self._give_back, self.life, key)

    def _has_slot(self) -> bool:
        offer = self.offer
        if offer.credit is None or not offer.credit_returns or PREFETCH not in offer.labels:
            return True
        return len(self.running) - len(self.waiting) <= offer.credit

    def _give_back(self, life: int, key: Key) -> None:
        if life == self.life and key in self.waiting:
            self.waiting.remove(key)
            self._finish(life, key, "hand_back")

    def _begin(self, key: Key) -> None:
        work, random = self.running[key], self.world.random
        if random.random() < 0.5:
            self._reply(work, ReplyKind.ACCEPTED)
        if random.random() < 0.2:
            self._reply(work, random.choice((ReplyKind.PROGRESS, ReplyKind.CHUNK)))
        for child in children_of(work.job, self.offer.worker):
            self.children[child.job] = child
            self.send(child)
        if self.is_good:
            self.world.after(0.01, self._finish, self.life, key, "succeed")
            return
        duration = random.choice((0.01, 0.05, 0.3, 1.5, 6.0))
        self.world.after(duration, self._finish, self.life, key, self._draw_outcome())

    def _draw_outcome(self) -> str:
        draw = self.world.random.random()
        for outcome, share in OUTCOMES:
            draw -= share
            if draw < 0:
                return outcome
        return "succeed"

    def _input(self, effect: SendInput) -> None:
        # A job that waits here has not asked; the input is that of an earlier attempt.
        begun = [k for k in self.running if k[0] == effect.job and k not in self.waiting]
        for key in begun:
            self._finish(self.life, key, "succeed")

    def _cancel(self, effect: SendCancel) -> None:
        key = (effect.job, effect.attempt)
        if key in self.waiting:
            self.waiting.remove(key)
            self._finish(self.life, key, "cancelled")
        elif key in self.running and self.offer.can_cancel and not self.world.chance(0.2):
            self._finish(self.life, key, "cancelled")

    def _poll(self, effect: SendPoll) -> None:
        key = (effect.job, effect.attempt)
        if key in self.results:
            self.send(self.results[key])
        elif key not in self.running:
            fault = Fault(FaultCode.HANDED_BACK, "never got it")
            self.send(
                ReplyReceived(
                    self.offer.worker,
                    effect.job,
                    ReplyKind.FINAL,
                    fault=fault,
                    attempt=effect.attempt,
                )
            )

    def _child(self, effect: SendReply) -> None:
        """Submit a child that failed in an earlier run of its parent again, under a new id."""
        child = self.children.get(effect.job)
        is_taken = effect.fault is not None and effect.fault.code is FaultCode.CONFLICT
        if child is not None and child.terms.parent is not None and is_taken:
            failed = int(effect.job.rpartition("~")[2]) if "~" in effect.job else 0
            again = child_of(child.terms.parent, self.offer.worker, failed + 1)
            self.children[again.job] = again
            self.send(again)

    def _beat_received(self, effect: SendBeat) -> None:
        """Do nothing: the heartbeat is a sign of life only."""

    def _dismissed(self, effect: Dismiss) -> None:
        self.join()

    # --- what it says -------------------------------------------------------------------------

    def _finish(self, life: int, key: Key, outcome: str) -> None:
        work = self.running.get(key)
        if life != self.life or not self.is_up or work is None or outcome == "hang":
            return
        if outcome == "die":
            self.world.fault("worker crash")
            self.crash()
            self.world.after(self.world.random.random() * 10, self.start)
            return
        if outcome == "ask":
            self._reply(work, ReplyKind.INPUT_ASKED)
            return
        del self.running[key]
        said = self._result(work, outcome)
        self.results[key] = said
        self.send(said)
        if self.offer.credit is not None and not self.offer.credit_returns:
            self.send(CreditGranted(self.offer.worker, 1))
        if self.waiting and len(self.running) - len(self.waiting) < (self.offer.credit or 0):
            self._begin(self.waiting.popleft())

    def _result(self, work: SendWork, outcome: str) -> ReplyReceived | JobForwarded:
        attempt = work.attempt if self.reports_attempt else None
        if outcome == "forward":
            service = self.world.random.choice(SERVICES)
            target = self.world.random.choice((ANY, ANY, Labelled("zone in (eu, us)")))
            return JobForwarded(
                self.offer.worker, work.job, service, work.body, target, "task", attempt
            )
        fault = _FAULTS.get(outcome)
        if outcome != "hand_back" and not self.is_good and is_stubborn(work.job):
            fault = TRY_AGAIN
        return ReplyReceived(
            self.offer.worker, work.job, ReplyKind.FINAL, self._body(work), fault, attempt
        )

    def _body(self, work: SendWork) -> Body:
        """Answer with the request, the attempt (if it reports attempts) and its name."""
        attempt = b"%d" % work.attempt if self.reports_attempt else b""
        return Body(LINK, (work.body.parts[0], attempt, self.name.encode()))

    def _reply(self, work: SendWork, kind: ReplyKind) -> None:
        attempt = work.attempt if self.reports_attempt else None
        body = Body(LINK, (b"on the way",))
        self.send(ReplyReceived(self.offer.worker, work.job, kind, body, None, attempt))


#: Asks for another try after 0.7 s; a back-off would be another time.
TRY_AGAIN: Final = Fault(FaultCode.TASK_FAILED, try_again_text(0.7, "busy"))
_FAULTS: Final = {
    "fail": Fault(FaultCode.TASK_FAILED, "it failed"),
    "fail_for_good": Fault(FaultCode.TASK_FAILED, "Permanent: it cannot work"),
    "hand_back": Fault(FaultCode.HANDED_BACK, "not now"),
    "cancelled": Fault(FaultCode.CANCELLED, "stopped"),
}
_HANDLERS: Final[dict[type, Callable[[SimWorker, Any], None]]] = {
    SendWork: SimWorker._work,
    SendInput: SimWorker._input,
    SendCancel: SimWorker._cancel,
    SendPoll: SimWorker._poll,
    SendBeat: SimWorker._beat_received,
    Dismiss: SimWorker._dismissed,
    SendReply: SimWorker._child,
}
