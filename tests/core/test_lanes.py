"""Lanes with limit keys: the right order, at a cost that does not grow with the queue."""

from tests.core.builders import Stage, cancelled, finished, given, handed_back, joined, submitted

from dragoman.core.events import Event
from dragoman.core.lanes import ClientHeaps, KeyedParts, QueueLane
from dragoman.model.limit import Limit


def key(n: int) -> Limit:
    return Limit(f"user:{n}", concurrency=1)


def hear(stage: Stage, event: Event) -> None:
    """Handle an event without a check of all invariants, which looks at everything."""
    stage.keep(stage.broker.handle(event, stage.now))


def test_jobs_with_and_without_keys_keep_one_order(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    stage.tell(submitted("keyed", limit=key(1)), submitted("plain"))
    stage.tell(submitted("other key", limit=key(2)), submitted("last"))
    order = []
    job = "first"
    for _ in range(4):
        [(job, _, _)] = given(stage.tell(finished("w1", job)))
        order.append(job)
    assert order == ["keyed", "plain", "other key", "last"]


def test_an_urgent_job_overtakes_the_other_keys(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    stage.tell(submitted("a", limit=key(1)), submitted("b", limit=key(2)))
    stage.tell(submitted("urgent", limit=key(2), priority=9))
    assert given(stage.tell(finished("w1", "first"))) == [("urgent", "w1", 1)]


def test_a_refused_job_with_a_key_does_not_hold_up_other_keys(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("refused", limit=key(1)))
    stage.tell(submitted("behind", limit=key(2)))
    assert given(stage.tell(handed_back("w1", "refused"))) == [("behind", "w1", 1)]


def test_the_order_of_a_lane_is_swept(stage: Stage) -> None:
    stage.tell(joined("w1", credit=0), submitted("stays", limit=key(0)))
    for n in range(300):
        stage.tell(submitted(f"j{n}", limit=key(n + 1), priority=n), cancelled(f"j{n}"))
    [lane] = stage.broker.state.queues.lanes()
    assert lane._order._entries < 100


def test_a_dispatch_looks_at_few_of_many_waiting_keys(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    for n in range(500):
        hear(stage, submitted(f"j{n}", limit=key(n)))
    looks = _count_looks(stage)
    hear(stage, finished("w1", "first"))
    for n in range(50):
        hear(stage, finished("w1", f"j{n}"))
    assert sum(looks) < 50 * 8


def test_a_full_key_with_a_long_queue_is_skipped_at_once(stage: Stage) -> None:
    stage.tell(joined("w1", credit=2, credit_returns=True), submitted("busy", limit=key(1)))
    for n in range(500):
        hear(stage, submitted(f"k{n}", limit=key(1)))
    looks = _count_looks(stage)
    for n in range(50):
        hear(stage, submitted(f"p{n}"))
        hear(stage, finished("w1", f"p{n}"))
    assert sum(looks) < 50 * 8
    stage.broker.validate()


def _count_looks(stage: Stage) -> list[int]:
    """Count the heads that are looked at from now on."""
    looks: list[int] = []

    class Counted(KeyedParts):
        def head(self):  # type: ignore[no-untyped-def]
            looks.append(1)
            return ClientHeaps.head(self)

    lanes: list[QueueLane] = list(stage.broker.state.queues.lanes())
    for lane in lanes:
        for parts in lane._keyed.values():
            parts.__class__ = Counted
    return looks


def test_a_key_that_clients_share_moves_to_the_client_whose_turn_it_is(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first", client="c0"))
    stage.tell(submitted("c1 key", client="c1", limit=key(1)), submitted("c1 plain", client="c1"))
    stage.tell(submitted("c1 urgent", client="c1", priority=5))
    stage.tell(submitted("c2 key", client="c2", limit=key(1)))
    order, job = [], "first"
    for _ in range(4):
        [(job, _, _)] = given(stage.tell(finished("w1", job)))
        order.append(job)
    assert order == ["c1 urgent", "c2 key", "c1 key", "c1 plain"]
