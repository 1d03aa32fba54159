"""Builders of events, and a stage that drives a broker."""

from collections.abc import Sequence
from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendWork
from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    DeliveryFailed,
    Event,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    TimeAdvanced,
    WorkerJoined,
)
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold, resume
from dragoman.core.why import Reason, why
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Record
from dragoman.model.target import ANY, Target, parse_target
from dragoman.model.terms import Terms

START = 1000.0


def body(text: str = "question") -> Body:
    return Body("local", (text.encode(),))


def peer(name: str) -> PeerId:
    return PeerId(f"local/{name}")


def submitted(
    job: str = "j1",
    service: str = "a",
    *,
    client: str = "c1",
    target: Target | str = ANY,
    text: str = "question",
    key: str = "",
    **terms: Any,
) -> JobSubmitted:
    return JobSubmitted(
        JobId(job),
        peer(client),
        ServiceName(service),
        body(text),
        parse_target(target) if isinstance(target, str) else target,
        Terms(**terms),
        key=key,
    )


def joined(name: str = "w1", *services: str, **said: Any) -> WorkerJoined:
    names = tuple(map(ServiceName, services or ("a",)))
    if "holds" in said and said["holds"] is not None:
        said["holds"] = frozenset(map(JobId, said["holds"]))
    return WorkerJoined(said.pop("at", peer(name)), WorkerName(name), names, **said)


def replied(worker: str, job: str, kind: ReplyKind, attempt: int | None = None) -> ReplyReceived:
    return ReplyReceived(peer(worker), JobId(job), kind, body(str(kind)), None, attempt)


def finished(
    worker: str, job: str, code: FaultCode | None = None, attempt: int | None = None
) -> ReplyReceived:
    fault = Fault(code, "said so") if code else None
    return ReplyReceived(
        peer(worker), JobId(job), ReplyKind.FINAL, body(f"result of {worker}"), fault, attempt
    )


def handed_back(worker: str, job: str) -> ReplyReceived:
    return finished(worker, job, FaultCode.HANDED_BACK)


def forwarded(worker: str, job: str, service: str, target: Target = ANY) -> JobForwarded:
    return JobForwarded(peer(worker), JobId(job), ServiceName(service), body("passed on"), target)


def left(name: str, grace: float = 0.0) -> PeerLeft:
    return PeerLeft(peer(name), "left", grace)


def cancelled(job: str, client: str = "c1") -> JobCancelled:
    return JobCancelled(JobId(job), peer(client))


def beat(name: str) -> BeatReceived:
    return BeatReceived(peer(name))


def granted(name: str, credit: int = 1) -> CreditGranted:
    return CreditGranted(peer(name), credit)


def undelivered(name: str, job: str, attempt: int = 1) -> DeliveryFailed:
    return DeliveryFailed(peer(name), False, JobId(job), attempt)


class Stage:
    """A broker, its clock and everything it recorded."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.broker = Broker(self.limits)
        self.now = START
        self.records: list[Record] = []
        self.bodies: dict[int, Body] = {}

    def tell(self, *events: Event) -> list[Effect]:
        """Handle events; return all their effects."""
        return [effect for event in events for effect in self._handle(event)]

    def wait(self, seconds: float) -> list[Effect]:
        """Advance the time; handle `TimeAdvanced` whenever a timer is due."""
        until, effects = self.now + seconds, list[Effect]()
        while (due := self.broker.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            effects += self._handle(TimeAdvanced())
        self.now = until
        return effects + self._handle(TimeAdvanced())

    def _handle(self, event: Event) -> list[Effect]:
        effects = self.broker.handle(event, self.now)
        self.keep(effects)
        self.broker.validate()
        return effects

    def keep(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.records.append(effect.record)
                if effect.body is not None:
                    self.bodies[effect.record.seq] = effect.body

    def restart(self, records: int | None = None) -> list[Effect]:
        """Recover a new broker from the records, or from the first so many of them."""
        self.records = self.records[:records]
        self.broker, effects = resume(fold(self.records), self.now, self.limits, "again")
        self.keep(effects)
        self.broker.validate()
        return effects

    def why(self, job: str = "j1") -> Reason:
        return why(self.broker.state, JobId(job)).reason

    def job(self, job: str = "j1") -> Any:
        return self.broker.state.store.jobs[JobId(job)]

    def worker(self, name: str = "w1") -> Any:
        return self.broker.state.registry.workers[peer(name)]


def kinds(effects: Sequence[Effect]) -> list[str]:
    """Return the kinds of the recorded records."""
    return [str(e.record.kind) for e in effects if isinstance(e, Append)]


def sends(effects: Sequence[Effect]) -> list[str]:
    """Return the sent effects with their peers."""
    found = []
    for effect in effects:
        if isinstance(effect, SendReply):
            found.append(f"{effect.kind} -> {effect.client.partition('/')[2]}")
        elif not isinstance(effect, Append):
            to = getattr(effect, "worker", None) or getattr(effect, "client", None)
            to = str(to or getattr(effect, "peer", ""))
            found.append(f"{type(effect).__name__} -> {to.partition('/')[2]}")
    return found


def given(effects: Sequence[Effect]) -> list[tuple[str, str, int]]:
    """Return (job, worker, attempt) of each dispatch."""
    work = [e for e in effects if isinstance(e, SendWork)]
    return [(str(e.job), e.worker.partition("/")[2], e.attempt) for e in work]


def final(effects: Sequence[Effect]) -> list[SendReply]:
    """Return the final replies."""
    return [e for e in effects if isinstance(e, SendReply) and e.kind is ReplyKind.FINAL]
