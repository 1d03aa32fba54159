"""Planted bugs of dispatch: for each, the smallest scenario in which it breaks its promise."""

from collections.abc import Callable

import pytest
from tests.core.builders import (
    Stage,
    finished,
    given,
    granted,
    handed_back,
    joined,
    left,
    submitted,
    undelivered,
)
from tests.testing.promises import around

from dragoman.model.labels import PREFETCH
from dragoman.testing.bugs.dispatch import BUGS


def credit_wakes_what_waits(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=0), submitted("j1"))
    return given(stage.tell(granted("w1"))) == [("j1", "w1", 1)]


def a_worker_that_may_come_back_keeps_its_job(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    return given(stage.tell(left("w1", grace=10.0))) == []


def nothing_is_given_to_who_left(stage: Stage) -> bool:
    stage.tell(joined("w1"), left("w1"))
    return given(stage.tell(submitted("j1"))) == []


def every_dispatch_has_a_new_number(stage: Stage) -> bool:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    return given(stage.tell(left("w1"))) == [("j1", "w2", 2)]


def clients_take_turns(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=0))
    stage.tell(submitted("j1", client="c1"), submitted("j2", client="c1"))
    stage.tell(submitted("k1", client="c2"))
    order = [job for job, _, _ in given(stage.tell(*[granted("w1")] * 3))]
    return order == ["j1", "k1", "j2"]


def a_refused_job_lets_others_pass(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=1), submitted("j1"), handed_back("w1", "j1"), submitted("j2"))
    return given(stage.tell(granted("w1"))) == [("j2", "w1", 1)]


def a_window_is_as_wide_as_it_was_said_to_be(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=1, credit_returns=True))
    return len(given(stage.tell(submitted("j1"), submitted("j2")))) == 1


def work_that_never_arrived_took_no_credit(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=1, credit_returns=False), submitted("j1"))
    stage.tell(undelivered("w1", "j1"))
    return bool(stage.worker("w1").credit == 1)


def prefetching(stage: Stage) -> None:
    """Register a worker with one slot, in which three more jobs may wait."""
    stage.tell(joined("w1", credit=1, credit_returns=True, labels={PREFETCH: "3"}))
    for number in range(3):
        stage.tell(submitted(f"quick-{number}"), finished("w1", f"quick-{number}"))


def a_job_that_waited_in_a_lost_worker_keeps_its_attempt(stage: Stage) -> bool:
    prefetching(stage)
    stage.tell(submitted("runs", max_attempts=1), submitted("waits", max_attempts=1), left("w1"))
    states = [stage.job(job).state for job in ("runs", "waits")]
    return states == ["dead", "queued"]


def clients_take_turns_in_advance(stage: Stage) -> bool:
    prefetching(stage)
    stage.tell(submitted("slow"), *[submitted(f"fill-{n}") for n in range(3)])
    stage.tell(*[submitted(f"a{n}", client="c1") for n in range(3)], submitted("b", client="c2"))
    ended = ("slow", "fill-0", "fill-1")
    order = [job for job, _, _ in given(stage.tell(*[finished("w1", job) for job in ended]))]
    return "b" in order[:2]


def a_turn_ends_whatever_the_weight(stage: Stage) -> bool:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("first"))
    stage.tell(*(submitted(f"h{n}", client="heavy", weight=2) for n in range(3)))
    stage.tell(submitted("calm", client="calm"))
    stage.tell(finished("w1", "first"), finished("w1", "h0"))
    return given(stage.tell(finished("w1", "h1"))) == [("calm", "w1", 1)]


STORIES: dict[str, Callable[[Stage], bool]] = {
    "lost_wake_up": credit_wakes_what_waits,
    "double_lease": a_worker_that_may_come_back_keeps_its_job,
    "dispatch_to_a_left_worker": nothing_is_given_to_who_left,
    "attempt_not_counted": every_dispatch_has_a_new_number,
    "unfair_queue": clients_take_turns,
    "heavy_client_keeps_its_turn": a_turn_ends_whatever_the_weight,
    "stuck_behind_a_refused_job": a_refused_job_lets_others_pass,
    "capacity_ignored": a_window_is_as_wide_as_it_was_said_to_be,
    "unstarted_job_counted": a_job_that_waited_in_a_lost_worker_keeps_its_attempt,
    "prefetch_out_of_turn": clients_take_turns_in_advance,
    "credit_leak": work_that_never_arrived_took_no_credit,
}


def test_every_bug_has_its_story() -> None:
    assert set(STORIES) == set(BUGS)


@pytest.mark.parametrize("name", list(BUGS))
def test_a_promise_is_broken_while_its_bug_is_in_and_only_then(name: str) -> None:
    assert around(BUGS[name], STORIES[name], Stage) == [True, False, True]
