"""Job states: the table of legal transitions."""

import pytest

from dragoman.model.job import FINAL, TRANSITIONS, JobState


def test_every_state_has_its_line_in_the_table() -> None:
    assert set(TRANSITIONS) == set(JobState)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_state_has_no_exit(state: JobState) -> None:
    assert TRANSITIONS[state] == frozenset()


@pytest.mark.parametrize("state", sorted(set(JobState) - FINAL))
def test_a_job_that_has_not_ended_can_still_end_in_every_way(state: JobState) -> None:
    assert TRANSITIONS[state] >= FINAL


def test_exactly_the_states_without_exit_are_final() -> None:
    assert {state for state, exits in TRANSITIONS.items() if not exits} == FINAL


def test_a_lost_job_goes_back_to_the_queue_and_a_queued_one_does_not_queue_again() -> None:
    assert JobState.QUEUED in TRANSITIONS[JobState.RUNNING]
    assert JobState.QUEUED not in TRANSITIONS[JobState.QUEUED]


def test_every_state_can_be_reached_from_the_queue() -> None:
    reached, fresh = {JobState.QUEUED}, {JobState.QUEUED}
    while fresh:
        fresh = {exit_ for state in fresh for exit_ in TRANSITIONS[state]} - reached
        reached |= fresh
    assert reached == set(JobState)
