"""The order of queued parts, and fairness between clients."""

from tests.core.builders import (
    Stage,
    cancelled,
    finished,
    given,
    handed_back,
    joined,
    peer,
    submitted,
)

from dragoman.core.lanes import Turns


def order_of_service(stage: Stage, jobs: int, worker: str = "w1") -> list[str]:
    """Finish one job after the other; return the order of their dispatch."""
    served = []
    for _ in range(jobs):
        [part] = stage.worker(worker).held.values()
        served.append(str(part.job.id))
        stage.tell(finished(worker, part.job.id))
    return served


def test_clients_take_turns_however_much_one_of_them_asks(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    stage.tell(*(submitted(f"a{n}", client="flood") for n in range(3)))
    stage.tell(submitted("b0", client="calm"), submitted("b1", client="calm"))
    assert order_of_service(stage, 6) == ["first", "a0", "b0", "a1", "b1", "a2"]


def test_many_kinds_of_jobs_give_a_client_no_more_turns(stage: Stage) -> None:
    stage.tell(joined("w1", "a", "b", credit=1, credit_returns=True), submitted("first"))
    stage.tell(
        submitted("a0", client="flood", target="w1"),
        submitted("a1", client="flood", target="labels:!x"),
        submitted("a2", "b", client="flood"),
        submitted("a3", client="flood"),
        submitted("b0", client="calm"),
    )
    assert order_of_service(stage, 3) == ["first", "a0", "b0"]


def test_a_clients_own_jobs_go_by_priority_and_then_by_age(stage: Stage) -> None:
    stage.tell(joined("w1", "a", "b", credit=1, credit_returns=True), submitted("first"))
    stage.tell(submitted("low"), submitted("high", priority=9), submitted("also low"))
    stage.tell(submitted("higher elsewhere", "b", priority=10))
    assert order_of_service(stage, 5) == ["first", "higher elsewhere", "high", "low", "also low"]


def test_a_job_that_comes_back_keeps_its_age(stage: Stage) -> None:
    stage.tell(joined("w1", credit=2, credit_returns=True), submitted("old"), submitted("x"))
    stage.tell(submitted("young"), joined("w2", credit=0))
    stage.tell(handed_back("w1", "old"))
    assert [str(p.job.id) for p in stage.worker("w1").held.values()] == ["x", "young"]
    stage.wait(2.0)
    assert given(stage.tell(finished("w1", "x"))) == [("old", "w1", 2)]


def test_a_refused_job_does_not_hold_up_those_behind_it(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("refused"))
    stage.tell(submitted("behind"))
    assert given(stage.tell(handed_back("w1", "refused"))) == [("behind", "w1", 1)]


def test_what_left_a_lane_is_swept_although_one_stays(stage: Stage) -> None:
    stage.tell(joined("w1", credit=0), submitted("stays", client="other"))
    for n in range(500):
        stage.tell(submitted(f"j{n}"), cancelled(f"j{n}"))
    [lane] = stage.broker.state.queues.lanes()
    assert sum(map(len, lane._plain._heaps.values())) < 200
    assert set(stage.broker.state.queues.turns.numbers) == {peer("other")}


def test_a_made_up_service_costs_nothing_once_its_jobs_are_gone(stage: Stage) -> None:
    stage.tell(submitted("j1", "made up"), submitted("j2", "made up", target="all"))
    assert stage.broker.state.queues.services() == ["made up"]
    stage.tell(cancelled("j1"), cancelled("j2"))
    assert stage.broker.state.queues.services() == []


def test_who_begins_to_wait_is_last_and_who_was_served_too() -> None:
    turns, first, second = Turns(), peer("c1"), peer("c2")
    turns.enter(first)
    turns.enter(second)
    assert turns.numbers[first] < turns.numbers[second]
    turns.served(first)
    assert turns.numbers[first] > turns.numbers[second]
    turns.leave(first)
    assert first not in turns.numbers
    turns.served(first)
    assert first not in turns.numbers


def test_a_client_of_a_higher_weight_gets_more_jobs_in_its_turn(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    stage.tell(*(submitted(f"h{n}", client="heavy", weight=3) for n in range(5)))
    stage.tell(*(submitted(f"l{n}", client="light") for n in range(3)))
    served = order_of_service(stage, 9)
    assert served == ["first", "h0", "h1", "h2", "l0", "h3", "h4", "l1", "l2"]


def test_a_client_that_leaves_in_its_turn_starts_the_next_one_anew(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    stage.tell(submitted("h0", client="heavy", weight=2), submitted("l0", client="light"))
    stage.tell(finished("w1", "first"), finished("w1", "h0"))
    stage.tell(*(submitted(f"h{n}", client="heavy", weight=2) for n in (1, 2, 3)))
    stage.tell(submitted("l1", client="light"))
    assert order_of_service(stage, 5) == ["l0", "h1", "h2", "l1", "h3"]
