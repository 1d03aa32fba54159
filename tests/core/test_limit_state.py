"""What the records say of limits, and that a snapshot keeps it."""

from tests.core.builders import Stage, finished, joined, submitted

from dragoman.core.events import ServiceLimited
from dragoman.core.limit_state import LimitState, rule_name
from dragoman.core.recovery import fold
from dragoman.model.limit import NO_LIMIT, Limit
from dragoman.model.names import ServiceName


def state_of(stage: Stage) -> LimitState:
    return stage.broker.state.store.queue.limits


def test_rules_and_spent_tokens_follow_from_the_records(stage: Stage) -> None:
    stage.tell(
        ServiceLimited(ServiceName("a"), Limit(rate=1, per=60.0)),
        ServiceLimited(ServiceName("a"), Limit(concurrency=3), "heavy"),
        ServiceLimited(ServiceName("b"), Limit(concurrency=3)),
        ServiceLimited(ServiceName("b"), NO_LIMIT),
    )
    stage.tell(joined("w1"), submitted("j1", limit=Limit("k", rate=1, per=30.0)))
    live = state_of(stage)
    assert set(live.rules) == {"service a", "task a heavy"}
    assert live.full_at == {"service a": stage.now + 60, "key anonymous k": stage.now + 30}
    replayed = fold(stage.records).queue.limits
    assert replayed.as_recorded(stage.now) == live.as_recorded(stage.now)
    assert LimitState.of_rows(live.rows()).as_recorded(stage.now) == live.as_recorded(stage.now)


def test_full_buckets_are_dropped(stage: Stage) -> None:
    stage.tell(joined("w1"))
    for n in range(1500):
        stage.now += 1.0
        event = submitted(f"j{n}", limit=Limit(f"user:{n}", rate=10))
        stage.keep(stage.broker.handle(event, stage.now))
        stage.keep(stage.broker.handle(finished("w1", f"j{n}"), stage.now))
    assert len(state_of(stage).full_at) < 1100


def test_versions_of_a_service_share_its_rule() -> None:
    state = LimitState()
    state.rules = {rule_name("a"): Limit(concurrency=1), rule_name("a", "t"): Limit(concurrency=2)}
    names = [name for name, _ in state.rules_of(ServiceName("a@1.2"), "t")]
    assert names == ["service a", "task a t"]
    assert state.rules_of(ServiceName("b"), "t") == []
