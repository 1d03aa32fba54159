"""Worker sessions: join, heartbeat, leave, return, drain, loss."""

import pytest
from tests.core.builders import (
    Stage,
    beat,
    cancelled,
    final,
    finished,
    given,
    granted,
    joined,
    kinds,
    left,
    peer,
    sends,
    submitted,
    undelivered,
)

from dragoman.core.effects import Dismiss, SendBeat, SendPoll
from dragoman.core.events import DeliveryFailed, DrainRequested
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.labels import PREFETCH


def test_a_worker_that_joins_is_recorded_with_what_it_owns(stage: Stage) -> None:
    effects = stage.tell(joined("w1", "a", "b", resources=("r1", "r2")))
    assert kinds(effects) == ["joined", "owns"]
    assert [r.detail for r in stage.records] == ["a\nb", "r1\nr2"]


def test_a_worker_that_says_it_again_keeps_its_assignments(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    effects = stage.tell(joined("w1"))
    assert kinds(effects) == ["resynced"]
    assert [e.job for e in effects if isinstance(e, SendPoll)] == ["j1"]
    assert [r.state for r in final(stage.tell(finished("w1", "j1")))] == [JobState.SUCCEEDED]


def test_a_worker_that_starts_anew_gives_up_what_it_does_not_hold(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), submitted("j2"))
    effects = stage.tell(joined("w1", holds={"j2"}))
    assert given(effects) == [("j1", "w1", 2)]
    assert [e.job for e in effects if isinstance(e, SendPoll)] == ["j2"]


def test_a_worker_may_change_its_name_while_it_is_here(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("other", at=peer("w1")), left("w1"))
    assert stage.broker.state.registry.names == {}


def test_a_worker_is_lost_after_so_many_silent_intervals_and_not_before(stage: Stage) -> None:
    stage.tell(joined("w1", beat_every=1.0, missed_allowed=3), submitted("j1", max_attempts=1))
    assert final(stage.wait(2.9)) == []
    effects = stage.wait(0.1)
    assert [e.peer for e in effects if isinstance(e, Dismiss)] == [peer("w1")]
    assert [r.state for r in final(effects)] == [JobState.DEAD]


@pytest.mark.parametrize("sign", [beat("w1"), granted("w1"), joined("w1", beat_every=1.0)])
def test_any_sign_of_life_keeps_the_lease(stage: Stage, sign: object) -> None:
    stage.tell(joined("w1", beat_every=1.0, missed_allowed=3), submitted("j1"))
    for _ in range(10):
        stage.wait(2.5)
        stage.tell(sign)  # type: ignore[arg-type]
    assert stage.job().parts[0].attempt == 1
    assert stage.job().state is JobState.RUNNING


def test_the_broker_beats_as_often_as_the_worker_does(stage: Stage) -> None:
    stage.tell(joined("w1", beat_every=1.0, missed_allowed=100))
    assert sum(isinstance(e, SendBeat) for e in stage.wait(10.0)) == 10


def test_a_worker_that_went_and_came_back_is_sent_one_beat_at_a_time(stage: Stage) -> None:
    said = joined("w1", beat_every=1.0, missed_allowed=100)
    stage.tell(said, submitted("j1"), left("w1", grace=9.0), said, left("w1", grace=9.0), said)
    assert sum(isinstance(e, SendBeat) for e in stage.wait(5.0)) == 5


def test_a_worker_that_begins_to_beat_has_a_lease_from_then_on(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w1", beat_every=1.0, missed_allowed=2))
    assert [e.peer for e in stage.wait(2.0) if isinstance(e, Dismiss)] == [peer("w1")]


@pytest.mark.parametrize("word", [beat("w1"), granted("w1"), finished("w1", "j1")])
def test_a_peer_that_is_no_worker_here_is_told_to_join_anew(stage: Stage, word: object) -> None:
    assert "Dismiss -> w1" in sends(stage.tell(word))  # type: ignore[arg-type]


def test_what_a_worker_with_grace_held_waits_for_it(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    assert given(stage.tell(left("w1", grace=5.0))) == []
    assert given(stage.wait(4.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w2", 2)]


def test_a_worker_that_comes_back_in_time_goes_on(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"), left("w1", grace=5.0))
    assert kinds(stage.tell(joined("w1"))) == ["joined"]
    assert given(stage.wait(60)) == []
    assert stage.job().parts[0].peer == peer("w1")


def test_an_earlier_absence_does_not_shorten_the_next(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"), left("w1", grace=5.0))
    stage.wait(4.0)
    stage.tell(joined("w1"), left("w1", grace=5.0))
    assert given(stage.wait(4.0)) == []
    assert given(stage.wait(1.1)) == [("j1", "w2", 2)]


def test_an_idle_worker_that_leaves_with_grace_is_simply_gone(stage: Stage) -> None:
    stage.tell(joined("w1"), left("w1", grace=5.0))
    assert not stage.broker.state.absent


def test_a_peer_that_takes_no_more_is_left_alone_until_it_speaks(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), undelivered("w1", "j1"))
    stage.wait(5.0)
    assert given(stage.tell(submitted("j2"))) == []
    assert given(stage.tell(beat("w1"))) == [("j1", "w1", 2), ("j2", "w1", 1)]


def test_a_silent_worker_whose_connection_is_gone_is_not_waited_for(stage: Stage) -> None:
    stage.tell(joined("w1", beat_every=1.0, missed_allowed=2, missed_allowed_busy=600))
    stage.tell(submitted("j1"))
    stage.wait(5)
    assert stage.broker.state.registry.workers
    stage.tell(DeliveryFailed(peer("w1"), is_gone=True))
    stage.wait(0)
    assert not stage.broker.state.registry.workers


def test_a_reply_that_found_nobody_is_recorded_and_harms_nobody(stage: Stage) -> None:
    effects = stage.tell(DeliveryFailed(peer("c1"), True, None))
    assert kinds(effects) == ["undelivered"]
    assert stage.records[0].fault == FaultCode.UNDELIVERED


def test_a_draining_worker_finishes_and_is_let_go(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    assert stage.tell(DrainRequested(peer("w1"))) == []
    assert given(stage.tell(submitted("j2"))) == []
    assert "Dismiss -> w1" in sends(stage.tell(finished("w1", "j1")))
    assert peer("w1") not in stage.broker.state.registry.workers


def test_a_draining_worker_is_let_go_however_its_last_job_ends(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), DrainRequested(peer("w1")))
    assert sends(stage.tell(cancelled("j1")))[-1] == "Dismiss -> w1"


def test_an_idle_worker_is_drained_at_once_and_an_unknown_one_not_at_all(stage: Stage) -> None:
    stage.tell(joined("w1"))
    assert sends(stage.tell(DrainRequested(peer("w1")))) == ["Dismiss -> w1"]
    assert stage.tell(DrainRequested(peer("w1"))) == []


def test_a_draining_broker_takes_nothing_new_and_finishes_what_it_has(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), DrainRequested())
    [reply] = final(stage.tell(submitted("j2")))
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.DRAINING
    assert [r.state for r in final(stage.tell(finished("w1", "j1")))] == [JobState.SUCCEEDED]


def test_the_end_of_a_session_says_how_often_it_was_heard(stage: Stage) -> None:
    stage.tell(joined("w1", beat_every=1.0), beat("w1"), beat("w1"), left("w1"))
    assert [r.count for r in stage.records if r.kind == "left"] == [2]


def with_prefetch(stage: Stage, name: str = "w1") -> None:
    """Register a worker with one slot, in which three more jobs may wait."""
    stage.tell(joined(name, credit=1, credit_returns=True, labels={PREFETCH: "3"}))
    for number in range(3):
        stage.tell(submitted(f"{name}-{number}"), finished(name, f"{name}-{number}"))


def test_a_job_that_waited_in_a_lost_worker_keeps_its_attempt(stage: Stage) -> None:
    with_prefetch(stage)
    stage.tell(submitted("runs", max_attempts=1), submitted("waits", max_attempts=1), left("w1"))
    assert stage.job("runs").state is JobState.DEAD
    assert given(stage.tell(joined("w2"))) == [("waits", "w2", 2)]
    stage.restart()
    stage.tell(joined("w2"), finished("w2", "waits"))
    assert stage.job("waits").state is JobState.SUCCEEDED


def test_a_worker_that_restarts_without_its_jobs_counts_only_what_it_ran(stage: Stage) -> None:
    with_prefetch(stage)
    stage.tell(submitted("runs", max_attempts=1), submitted("waits", max_attempts=1))
    again = joined("w1", credit=1, credit_returns=True, labels={PREFETCH: "3"}, holds=set())
    stage.tell(again)
    stage.wait(stage.limits.refusal_pause)
    assert [stage.job(job).state for job in ("runs", "waits")] == [JobState.DEAD, JobState.RUNNING]


def test_a_job_that_kills_its_workers_from_the_waiting_line_still_ends(stage: Stage) -> None:
    for number in range(10):
        name = f"w{number}"
        with_prefetch(stage, name)
        stage.tell(submitted(f"first-{number}"), submitted("killer", max_attempts=2), left(name))
        stage.wait(2.0)
    assert stage.job("killer").state is JobState.DEAD
