"""The job store: a fold of the records."""

import gc

import pytest
from tests.core.builders import (
    Stage,
    cancelled,
    finished,
    forwarded,
    handed_back,
    joined,
    left,
    peer,
    submitted,
)

from dragoman.core.job_store import JobStore
from dragoman.core.jobs import Job, JobPart
from dragoman.core.limits import Limits
from dragoman.core.recovery import fold
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record


def test_a_replay_of_the_records_is_the_live_book(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"), submitted("j2", key="k"))
    stage.tell(finished("w1", "j1"), forwarded("w2", "j1", "b"), left("w1"), submitted("j3", "c"))
    live, replayed = stage.broker.state.store, fold(stage.records)
    assert replayed.as_recorded() == live.as_recorded()
    assert (replayed.keys, replayed.counts) == (live.keys, live.counts)
    assert (replayed.open_jobs, replayed.last_seq) == (live.open_jobs, live.last_seq)


def test_a_final_state_never_changes() -> None:
    store = JobStore()
    store.apply(Record(1, 1.0, Kind.SUBMITTED, "j1", service="a", client="c"))
    store.apply(Record(2, 2.0, Kind.ENDED, "j1", state="cancelled"))
    with pytest.raises(AssertionError):
        store.apply(Record(3, 3.0, Kind.DISPATCHED, "j1", attempt=1, worker="w1", peer="p"))


def test_a_job_is_running_while_one_of_its_parts_is(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2", credit=0), submitted("j1", target="all"))
    assert stage.job().state is JobState.RUNNING
    stage.tell(finished("w1", "j1"))
    assert stage.job().state is JobState.QUEUED


def test_what_came_back_unrun_is_counted_apart(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), handed_back("w1", "j1"))
    part = stage.job().parts[0]
    assert (part.attempt, part.returned, part.worker) == (1, 1, "")


def test_sessions_follow_joins_names_and_leaves(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("renamed", at=peer("w1")), joined("w2"), left("w2"))
    assert stage.broker.state.store.sessions == {peer("w1"): "renamed"}


def test_records_of_a_kind_the_book_does_not_know_are_counted_and_left() -> None:
    store = JobStore()
    store.apply(Record(1, 1.0, "from a newer version", "j1"))
    assert store.counts["from a newer version"] == 1
    assert store.jobs == {}


def test_a_job_that_is_forgotten_takes_its_key_and_memo_along(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", key="k", memoize=True), finished("w1", "j1"))
    stage.tell(submitted("j2", key="k", memoize=True))
    store = fold(stage.records)
    store.forget(store.jobs[JobId("j1")])
    assert (store.jobs, store.keys, store.memo, store.aliases) == ({}, {}, {}, {})


def test_a_job_that_is_forgotten_is_gone_at_once_and_no_matter_for_the_collector() -> None:
    store = JobStore()
    store.apply(Record(1, 1.0, Kind.SUBMITTED, "only-here", service="a", client="c"))
    store.apply(Record(2, 2.0, Kind.ENDED, "only-here", state="cancelled"))
    gc.disable()
    try:
        store.forget(store.finished.popleft())
        left_over = [each for each in gc.get_objects() if type(each) in (Job, JobPart)]
    finally:
        gc.enable()
    assert "only-here" not in [each.job.id for each in left_over if type(each) is JobPart]
    assert "only-here" not in [each.id for each in left_over if type(each) is Job]


@pytest.mark.parametrize("first", range(10))
def test_records_of_jobs_whose_beginning_is_gone_do_no_harm(first: int) -> None:
    stage = Stage()
    stage.tell(joined("w1"), submitted("old", target="all"), finished("w1", "old"))
    stage.tell(submitted("other"), cancelled("other"), submitted("new", "b"))
    cut = fold(stage.records[first:], store=JobStore(is_cut=True))
    assert cut.last_seq == len(stage.records)
    whole = fold(stage.records).as_recorded()
    assert cut.as_recorded().items() <= whole.items()
    assert ("new" in cut.jobs) is (stage.job("new").submit_seq > first)


def test_an_id_that_is_used_again_is_the_newest_job() -> None:
    stage = Stage(Limits(finished_jobs=0))
    stage.tell(joined("w1"), submitted("again"), finished("w1", "again"))
    stage.tell(submitted("waits", "b"), submitted("again", "b"))
    replayed = fold(stage.records)
    assert list(replayed.jobs) == ["waits", "again"]
