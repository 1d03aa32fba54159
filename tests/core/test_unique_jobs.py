"""Unique jobs: the first one wins, or with a quiet time the last one."""

from dataclasses import replace

import pytest
from tests.core.builders import (
    Stage,
    cancelled,
    final,
    finished,
    given,
    joined,
    left,
    peer,
    submitted,
)

from dragoman.core.job_store import JobStore
from dragoman.core.unique_jobs import UniqueJobs
from dragoman.core.why import Reason, why
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, Principal
from dragoman.model.unique import Unique

QUEUED = Unique("k", until="start")
OPEN = Unique("k")
RECENT = Unique("k", period=60.0)
QUIET = Unique("k", quiet=5.0)


def is_refused(stage: Stage, job: str, unique: Unique) -> bool:
    fault = final(stage.tell(submitted(job, text=job, unique=unique)))
    if fault:
        assert fault[0].fault is not None
        assert fault[0].fault.code is FaultCode.DUPLICATE
    return bool(fault)


def test_a_second_job_is_refused_while_the_first_is_queued(stage: Stage) -> None:
    stage.tell(submitted("j1", unique=QUEUED))
    assert is_refused(stage, "j2", QUEUED)
    stage.tell(joined("w1"))
    assert not is_refused(stage, "j3", QUEUED), "the first one has started"


def test_a_second_job_is_refused_until_the_first_has_ended(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", unique=OPEN))
    assert is_refused(stage, "j2", OPEN)
    stage.tell(left("w1"))
    assert is_refused(stage, "j2", OPEN), "a lost worker does not end it"
    stage.tell(joined("w2"), finished("w2", "j1"))
    assert not is_refused(stage, "j2", OPEN)


def test_a_refusal_names_the_job_that_has_the_key(stage: Stage) -> None:
    stage.tell(submitted("j1", unique=OPEN))
    [reply] = final(stage.tell(submitted("j2", unique=OPEN)))
    assert reply.fault is not None
    assert reply.fault.message.startswith("job j1 has the unique key k")
    assert stage.records[-1].kind == "refused"


def test_the_same_submission_again_is_no_duplicate(stage: Stage) -> None:
    stage.tell(submitted("j1", unique=OPEN))
    assert final(stage.tell(submitted("j1", unique=OPEN))) == []


def test_a_job_has_its_key_for_a_time_over_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", unique=RECENT), finished("w1", "j1"))
    stage.restart()
    assert is_refused(stage, "j2", RECENT)
    stage.wait(61.0)
    assert not is_refused(stage, "j2", RECENT)


@pytest.mark.parametrize("unique", [QUEUED, OPEN])
def test_a_key_holds_over_a_restart_and_is_free_after_a_cancel(
    stage: Stage, unique: Unique
) -> None:
    stage.tell(submitted("j1", unique=unique))
    stage.restart()
    assert is_refused(stage, "j2", unique)
    stage.tell(cancelled("j1"))
    assert not is_refused(stage, "j2", unique)


def test_principals_do_not_share_keys(stage: Stage) -> None:
    stage.tell(submitted("j1", unique=OPEN))
    other = replace(submitted("j2", unique=OPEN), principal=Principal("ada"))
    assert final(stage.tell(other)) == []


def test_with_a_quiet_time_the_last_job_wins(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", client="c1", unique=QUIET))
    stage.wait(4.0)
    [reply] = final(stage.tell(submitted("j2", client="c2", unique=QUIET)))
    assert (reply.client, reply.job, reply.state) == (peer("c1"), "j1", JobState.CANCELLED)
    assert reply.fault is not None
    assert reply.fault.message == "replaced by job j2, which has the same unique key"
    assert given(stage.wait(4.9)) == []
    assert stage.why("j2") is Reason.DELAYED
    assert given(stage.wait(0.2)) == [("j2", "w1", 1)]


def test_a_job_that_started_is_not_replaced(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", unique=QUIET))
    stage.wait(5.1)
    assert final(stage.tell(submitted("j2", unique=QUIET))) == []
    stage.wait(5.1)
    assert len(stage.worker("w1").held) == 2


def test_a_replaced_job_stays_replaced_over_a_restart(stage: Stage) -> None:
    stage.tell(submitted("j1", unique=QUIET), submitted("j2", unique=QUIET))
    stage.restart()
    stage.wait(6.0)
    assert given(stage.tell(joined("w1"))) == [("j2", "w1", 1)]
    assert "replaced by job j2" in why(stage.broker.state, JobId("j1")).words


def test_keys_that_are_free_again_cost_nothing() -> None:
    stage = Stage()
    stage.tell(joined("w1"))
    for n in range(1500):
        stage.now += 1.0
        event = submitted(f"j{n}", unique=Unique(f"k{n}", period=10.0))
        stage.keep(stage.broker.handle(event, stage.now))
        stage.keep(stage.broker.handle(finished("w1", f"j{n}"), stage.now))
    store: JobStore = stage.broker.state.store
    assert len(store.queue.uniques._found) < 1100
    assert UniqueJobs.of_rows(store.queue.uniques.rows())._found == store.queue.uniques._found
