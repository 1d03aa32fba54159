"""Which worker is chosen, which has room, and what an offer means."""

import pytest
from tests.core.builders import (
    Stage,
    finished,
    given,
    granted,
    handed_back,
    joined,
    left,
    peer,
    submitted,
    undelivered,
)

from dragoman.core.events import BeatReceived, WorkerJoined
from dragoman.core.registry import SHORT_TURNAROUND, RegisteredWorker
from dragoman.model.capacity import Capacity
from dragoman.model.labels import PREFETCH


def test_the_least_loaded_worker_is_chosen_and_then_the_least_recently_used(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"))
    assert given(stage.tell(submitted("j1"))) == [("j1", "w1", 1)]
    assert given(stage.tell(submitted("j2"))) == [("j2", "w2", 1)]
    stage.tell(finished("w1", "j1"))
    assert given(stage.tell(submitted("j3"))) == [("j3", "w1", 1)]
    stage.tell(finished("w2", "j2"), finished("w1", "j3"))
    assert given(stage.tell(submitted("j4"))) == [("j4", "w2", 1)]


def test_round_robin_takes_turns_whatever_the_load(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"))
    asked = [submitted(f"j{n}", balance="round_robin") for n in range(3)]
    assert [w for _, w, _ in given(stage.tell(*asked))] == ["w1", "w2", "w1"]


def test_least_recently_used_goes_by_who_was_busy_last(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), joined("w2"))
    order = "least_recently_used"
    stage.tell(submitted("j1", balance=order), submitted("j2", balance=order))
    stage.tell(finished("w2", "j2"), finished("w1", "j1"))
    assert given(stage.tell(submitted("j3", balance=order))) == [("j3", "w2", 1)]


def test_each_job_asks_for_its_own_balance_although_another_waits_before_it(stage: Stage) -> None:
    stage.tell(joined("w1", credit=0), joined("w2", credit=0))
    stage.tell(submitted("j1", balance="round_robin"), submitted("j2"))
    lanes = list(stage.broker.state.queues.lanes())
    assert sorted(lane.balance for lane in lanes) == ["least_loaded", "round_robin"]


def test_spent_credit_comes_back_only_with_a_grant(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1"), submitted("j2"))
    assert given(stage.tell(finished("w1", "j1"))) == []
    assert given(stage.tell(granted("w1"))) == [("j2", "w1", 1)]


def test_a_window_is_how_much_a_worker_holds_at_a_time(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1"), submitted("j2"))
    assert given(stage.tell(finished("w1", "j1"))) == [("j2", "w1", 1)]


def test_a_window_said_again_is_not_added_to_what_is_held(stage: Stage) -> None:
    again = joined("w1", credit=1, credit_returns=True)
    stage.tell(again, submitted("j1"), submitted("j2"), submitted("j3"))
    assert given(stage.tell(again)) == []
    assert given(stage.tell(finished("w1", "j1"))) == [("j2", "w1", 1)]


def test_a_job_that_never_reached_its_worker_gives_the_credit_back(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1"), undelivered("w1", "j1"))
    assert stage.worker("w1").credit == 1


def test_a_grant_of_less_than_nothing_takes_nothing_away(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), granted("w1", -5))
    assert given(stage.tell(submitted("j1"))) == [("j1", "w1", 1)]


def test_a_job_goes_only_where_its_needs_fit(stage: Stage) -> None:
    stage.tell(joined("w1", capacity=Capacity(cpu=1)), joined("w2", capacity=Capacity(cpu=4)))
    need = Capacity(cpu=2)
    asked = [submitted(f"j{n}", needs=need) for n in range(3)]
    assert [w for _, w, _ in given(stage.tell(*asked))] == ["w2", "w2"]
    assert given(stage.tell(finished("w2", "j0"))) == [("j2", "w2", 1)]


def test_what_a_beat_calls_free_is_beside_what_the_worker_holds(stage: Stage) -> None:
    need = Capacity(cpu=2)
    stage.tell(joined("w1", capacity=Capacity(cpu=2)), submitted("j1", needs=need))
    stage.tell(submitted("j2", needs=need))
    assert given(stage.tell(BeatReceived(peer("w1"), Capacity(cpu=2)))) == [("j2", "w1", 1)]


def test_a_service_offered_twice_is_offered_once(stage: Stage) -> None:
    stage.tell(joined("w1", "a", "a"), submitted("j1"), left("w1"))
    assert stage.broker.state.registry.pools == {}


def test_a_worker_that_does_not_beat_has_no_lease(stage: Stage) -> None:
    stage.tell(joined("w1", beat_every=0.0))
    assert stage.worker("w1").lease is None
    assert stage.broker.next_deadline() is None


@pytest.mark.parametrize(("missed_busy", "lease"), [(None, 6.0), (10, 20.0)])
def test_a_busy_worker_may_be_silent_for_longer(
    stage: Stage, missed_busy: int | None, lease: float
) -> None:
    stage.tell(joined("w1", beat_every=2.0, missed_allowed=3, missed_allowed_busy=missed_busy))
    assert stage.worker("w1").lease == 6.0
    stage.tell(submitted("j1"))
    assert stage.worker("w1").lease == lease


def test_a_worker_is_in_every_index_until_it_leaves(stage: Stage) -> None:
    stage.tell(joined("w1", "a", "b", resources=("r1",)), submitted("j1"), handed_back("w1", "j1"))
    registry = stage.broker.state.registry
    assert [set(registry.pools), set(registry.names), set(registry.owners)] == [
        {"a", "b"},
        {"w1"},
        {"r1"},
    ]
    stage.tell(left("w1"))
    assert [registry.pools, registry.names, registry.owners, registry.workers] == [{}, {}, {}, {}]


def test_resources_are_announced_by_a_label_where_the_dialect_has_no_word_for_them() -> None:
    labels = {"dragoman.resources": "a,b%2Cc"}
    assert RegisteredWorker(joined("w1", labels=labels), 0.0).resources == ("a", "b,c")
    assert RegisteredWorker(joined("w1", labels=labels, resources=("x",)), 0.0).resources == ("x",)


# --- prefetch -----------------------------------------------------------------------------------


def prefetching(name: str = "w1", slots: int = 1, most: str = "4") -> WorkerJoined:
    return joined(name, credit=slots, credit_returns=True, labels={PREFETCH: most})


def run_quickly(stage: Stage, jobs: int, worker: str = "w1") -> None:
    for number in range(jobs):
        stage.tell(submitted(f"quick-{number}"), finished(worker, f"quick-{number}"))


def test_a_worker_gets_jobs_in_advance_while_its_jobs_return_quickly(stage: Stage) -> None:
    stage.tell(prefetching(most="2"))
    assert len(given(stage.tell(submitted("j1"), submitted("j2")))) == 1
    stage.tell(finished("w1", "j1"), finished("w1", "j2"))
    asked = [submitted(f"k{n}") for n in range(5)]
    assert len(given(stage.tell(*asked))) == 3


def test_a_slow_job_halves_what_a_worker_gets_in_advance(stage: Stage) -> None:
    stage.tell(prefetching(most="8"))
    run_quickly(stage, 8)
    stage.tell(submitted("slow"))
    stage.wait(SHORT_TURNAROUND * 2)
    stage.tell(finished("w1", "slow"))
    assert stage.worker("w1").extra == 4


def test_a_worker_that_hands_back_gets_nothing_in_advance(stage: Stage) -> None:
    stage.tell(prefetching())
    run_quickly(stage, 4)
    stage.tell(submitted("j1"), submitted("j2"), handed_back("w1", "j2"))
    assert stage.worker("w1").extra == 0


@pytest.mark.parametrize("balance", ["least_loaded", "round_robin", "least_recently_used"])
def test_a_free_slot_comes_before_a_place_to_wait(stage: Stage, balance: str) -> None:
    stage.tell(prefetching("w1"))
    run_quickly(stage, 4)
    stage.tell(submitted("j1", balance=balance), prefetching("w2", slots=2))
    asked = [submitted(f"k{n}", balance=balance) for n in range(3)]
    assert [w for _, w, _ in given(stage.tell(*asked))] == ["w2", "w2", "w1"]


@pytest.mark.parametrize("text", ["", "-1", "many", "1.5"])
def test_a_label_that_is_no_number_means_no_prefetch(stage: Stage, text: str) -> None:
    stage.tell(prefetching(most=text))
    run_quickly(stage, 3)
    assert len(given(stage.tell(submitted("j1"), submitted("j2")))) == 1


def test_only_credit_that_returns_is_exceeded(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, labels={PREFETCH: "4"}))
    stage.tell(submitted("j1"), finished("w1", "j1"), granted("w1"))
    assert len(given(stage.tell(submitted("j2"), submitted("j3")))) == 1
