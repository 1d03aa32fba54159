"""For any order of events the invariants hold and the records suffice for recovery."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.core.builders import (
    Stage,
    beat,
    body,
    cancelled,
    finished,
    forwarded,
    granted,
    joined,
    left,
    peer,
    replied,
    submitted,
    undelivered,
)
from tests.core.snapshot_checks import assert_same_fold, encoded

from dragoman.core.effects import Append, Effect, SendReply, SendStatus
from dragoman.core.events import (
    BeatReceived,
    DeliveryFailed,
    DrainRequested,
    InputReceived,
    Noted,
    ReplyKind,
    ResourcesDeclared,
    ResourcesSettled,
    ResultRequested,
)
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold
from dragoman.core.snapshots import write_snapshot
from dragoman.core.why import why
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId, ServiceName
from dragoman.model.record import Kind
from dragoman.model.target import ALL, ANY, Labelled, Target, parse_target
from dragoman.model.terms import BALANCES

JOBS = st.sampled_from(["j1", "j2", "j3", "j4"])
WORKERS = st.sampled_from(["w1", "w2", "w3"])
CLIENTS = st.sampled_from(["c1", "c2"])
SERVICES = st.sampled_from(["a", "b", "all"])
TARGETS = st.sampled_from(
    ["any", "all", "w1", "w1,w2", "labels:zone=eu", "resource:r1", "resource:r*"]
).map(parse_target)
NEEDS = st.sampled_from([NOTHING, Capacity(cpu=1)])
TEXTS = st.sampled_from(["q", "another q"])
KEYS = st.sampled_from(["", "", "k"])
HOPS = st.sampled_from(
    [ANY, ALL, Labelled("zone=eu"), parse_target("w2"), parse_target("resource:r1")]
)
Said = dict[str, Any]
SPANS = st.sampled_from([None, 0.0, 1.0, 5.0])
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "patience": SPANS,
        "run_timeout": st.just(2.0),
        "timeout": st.just(9.0),
        "queue_timeout": st.just(3.0),
        "max_attempts": st.integers(1, 2),
        "backoff": st.just(1.0),
        "priority": st.integers(0, 1),
        "balance": st.sampled_from(BALANCES),
        "needs": NEEDS,
        "memoize": st.just(True),
        "strict": st.booleans(),
    },
)


class BrokerLife(RuleBasedStateMachine):
    """Every event type, from every peer, about every job, in any order."""

    @initialize()
    def begin(self) -> None:
        limits = Limits(
            queued_jobs=6, hops=2, recovery_grace=3.0, result_bytes=30, queued_memory=500
        )
        self.stage = Stage(limits)
        self.departed: set[str] = set()
        self.snapshot = (0, encoded(write_snapshot(fold([]))))
        self.ended: dict[str, JobState] = {}

    def tell(self, *events: object) -> None:
        for event in events:
            for name in ("client", "worker"):
                self.departed.discard(getattr(event, name, None) or "")
            self.check(self.stage.tell(event))  # type: ignore[arg-type]

    def check(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                if effect.record.kind == Kind.ENDED:
                    assert effect.record.job not in self.ended, "ended twice"
                    self.ended[effect.record.job] = JobState(effect.record.state)
                continue
            is_to_client = isinstance(effect, SendReply | SendStatus)
            to = effect.client if is_to_client else getattr(effect, "worker", "")  # type: ignore[union-attr]
            assert to not in self.departed, f"{effect} to a peer that left"

    # --- clients --------------------------------------------------------------------------------

    @rule(
        job=JOBS, client=CLIENTS, service=SERVICES, whom=TARGETS, text=TEXTS, key=KEYS, said=TERMS
    )
    def submit(
        self, job: str, client: str, service: str, whom: Target, text: str, key: str, said: Said
    ) -> None:
        self.tell(submitted(job, service, client=client, target=whom, text=text, key=key, **said))

    @rule(job=JOBS, client=CLIENTS)
    def cancel(self, job: str, client: str) -> None:
        self.tell(cancelled(job, client))

    @rule(job=JOBS, client=CLIENTS)
    def ask(self, job: str, client: str) -> None:
        self.tell(ResultRequested(JobId(job), peer(client)))

    @rule(job=JOBS, client=CLIENTS)
    def give_input(self, job: str, client: str) -> None:
        self.tell(InputReceived(JobId(job), peer(client), body("input")))

    # --- workers --------------------------------------------------------------------------------

    @rule(
        name=WORKERS,
        services=st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "a"), ()]),
        credit=st.sampled_from([None, 0, 1, 2]),
        credit_returns=st.booleans(),
        beat_every=st.sampled_from([None, 1.0]),
        labels=st.sampled_from([{}, {"zone": "eu"}]),
        resources=st.sampled_from([(), ("r1",), ("r1", "r2")]),
        capacity=st.sampled_from([None, Capacity(cpu=1)]),
        can_cancel=st.booleans(),
        holds=st.sampled_from([None, (), ("j1",), ("j1", "j2")]),
    )
    def join(self, name: str, services: tuple[str, ...], **said: object) -> None:
        self.tell(joined(name, *services, **said))

    @rule(worker=WORKERS, job=JOBS, kind=st.sampled_from(list(ReplyKind)), attempt=SPANS)
    def report(self, worker: str, job: str, kind: ReplyKind, attempt: float | None) -> None:
        self.tell(replied(worker, job, kind, None if attempt is None else int(attempt)))

    @rule(
        worker=WORKERS,
        job=JOBS,
        code=st.sampled_from(
            [None, FaultCode.TASK_FAILED, FaultCode.HANDED_BACK, FaultCode.CANCELLED]
        ),
        attempt=st.sampled_from([None, None, 1, 2]),
    )
    def finish(self, worker: str, job: str, code: FaultCode | None, attempt: int | None) -> None:
        self.tell(finished(worker, job, code, attempt))

    @rule(worker=WORKERS, job=JOBS, service=SERVICES, whom=HOPS)
    def forward(self, worker: str, job: str, service: str, whom: Target) -> None:
        self.tell(forwarded(worker, job, service, whom))

    @rule(worker=WORKERS, credit=st.integers(-1, 2))
    def grant(self, worker: str, credit: int) -> None:
        self.tell(granted(worker, credit))

    @rule(worker=WORKERS, capacity=st.sampled_from([None, Capacity(cpu=2)]))
    def beat(self, worker: str, capacity: Capacity | None) -> None:
        self.tell(BeatReceived(peer(worker), capacity) if capacity else beat(worker))

    @rule(name=st.one_of(WORKERS, CLIENTS), grace=st.sampled_from([0.0, 2.0]))
    def leave(self, name: str, grace: float) -> None:
        self.departed.add(peer(name))
        self.check(self.stage.tell(left(name, grace)))

    @rule(worker=WORKERS, job=JOBS, attempt=st.integers(1, 3), is_unmappable=st.booleans())
    def fail_delivery(self, worker: str, job: str, attempt: int, is_unmappable: bool) -> None:
        fault = Fault(FaultCode.UNMAPPABLE, "no form") if is_unmappable else None
        event = undelivered(worker, job, attempt)
        self.check(self.stage.tell(DeliveryFailed(event.peer, False, event.job, attempt, fault)))

    @rule(worker=st.one_of(st.none(), WORKERS))
    def drain(self, worker: str | None) -> None:
        self.check(self.stage.tell(DrainRequested(peer(worker) if worker else None)))

    # --- the broker -----------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0]))
    def wait(self, seconds: float) -> None:
        self.check(self.stage.wait(seconds))

    @rule(
        service=st.sampled_from(["a", "b"]),
        names=st.sampled_from([(), ("r1",), ("r1", "r2", "r3")]),
        replicas=st.integers(0, 2),
    )
    def declare(self, service: str, names: tuple[str, ...], replicas: int) -> None:
        self.tell(ResourcesDeclared(ServiceName(service), names, replicas))

    @rule(worker=WORKERS)
    def settle(self, worker: str) -> None:
        self.check(self.stage.tell(ResourcesSettled(peer(worker))))

    @rule()
    def note(self) -> None:
        self.tell(Noted(Kind.REJECTED, peer("c1"), "nonsense"))

    @rule()
    def crash_and_recover(self) -> None:
        self.departed.clear()
        self.check(self.stage.restart())

    @invariant()
    def the_records_suffice(self) -> None:
        live, replayed = self.stage.broker.state.store, fold(self.stage.records)
        assert replayed.as_recorded() == live.as_recorded()
        assert replayed.sessions == live.sessions
        assert replayed.counts == live.counts

    @rule()
    def take_a_snapshot(self) -> None:
        rows = encoded(write_snapshot(fold(self.stage.records)))
        self.snapshot = (len(self.stage.records), rows)

    @invariant()
    def a_snapshot_and_the_records_after_it_suffice(self) -> None:
        count, rows = self.snapshot
        assert_same_fold(self.stage.records, count, rows)

    @invariant()
    def what_ended_has_not_changed_and_why_has_an_answer(self) -> None:
        for job in self.stage.broker.state.store.jobs.values():
            assert (job.state in FINAL) == (job.id in self.ended)
            if job.id in self.ended:
                assert job.state is self.ended[job.id]
            assert why(self.stage.broker.state, job.id).words


BrokerLife.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestBrokerLife = BrokerLife.TestCase
