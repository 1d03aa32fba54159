"""Whom to ask next about which job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.nfp.polling import Assignments
from dragoman.model.names import JobId, PeerId

W1, W2, J1, J2 = PeerId("w1"), PeerId("w2"), JobId("j1"), JobId("j2")


@pytest.fixture
def watched() -> Assignments:
    watched = Assignments(10.0, 3)
    watched.track(W1, J1, b"c1", 1, 0.0)
    watched.track(W2, J1, b"c1", 1, 1.0)
    watched.track(W1, J2, b"c1", 1, 2.0)
    return watched


def test_the_longest_silent_job_is_polled_first(watched: Assignments) -> None:
    assert watched.next_deadline() == 10.0
    first = watched.find(W1, J1)
    assert first is not None
    watched.touch(first, 5.0)
    assert [a.worker for a in watched.overdue(12.0)] == [W2, W1]
    assert watched.next_deadline() == 11.0
    watched.validate()


def test_a_poll_is_remembered_until_it_is_answered(watched: Assignments) -> None:
    found = watched.find(W1, J1)
    assert found is not None
    watched.polled(found, 10.0)
    assert (found.asked_at, found.due) == (10.0, 20.0)
    watched.postpone(found, 20.0)
    assert found.asked_at == 10.0
    watched.touch(found, 21.0)
    assert found.asked_at is None


def test_a_job_is_dropped_on_all_workers(watched: Assignments) -> None:
    watched.drop_job(J1)
    assert len(watched) == 1
    watched.drop(W1, J2)
    watched.drop(W1, J2)
    assert watched.next_deadline() is None


def test_beyond_the_bound_the_longest_silent_job_is_dropped(watched: Assignments) -> None:
    watched.track(W2, J2, b"c1", 1, 3.0)
    assert watched.find(W1, J1) is None
    assert len(watched) == 3


def test_a_second_attempt_begins_anew(watched: Assignments) -> None:
    found = watched.find(W1, J1)
    assert found is not None
    found.is_missing = True
    assert watched.track(W1, J1, b"c1", 2, 5.0).is_missing is False
    assert len(watched) == 3


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([W1, W2]), st.sampled_from([J1, J2])),
        max_size=30,
    )
)
def test_the_indexes_agree_whatever_happens(script: list[tuple[int, PeerId, JobId]]) -> None:
    watched, now = Assignments(10.0, 3), 0.0
    for verb, worker, job in script:
        now += 1.0
        found = watched.find(worker, job)
        if verb == 0:
            watched.track(worker, job, b"", 1, now)
        elif verb == 1:
            watched.drop(worker, job)
        elif verb == 2:
            watched.drop_job(job)
        elif found is not None:
            (watched.touch if verb == 3 else watched.polled)(found, now)
        watched.validate()
        assert all(a.due <= now + 3 for a in watched.overdue(now + 3))
