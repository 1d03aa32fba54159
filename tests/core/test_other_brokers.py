"""Workers that are brokers: the way of a job, its time, its retries, and its choice of worker."""

from tests.core.builders import (
    Stage,
    final,
    finished,
    given,
    handed_back,
    joined,
    kinds,
    submitted,
)

from dragoman.core.effects import SendWork
from dragoman.core.events import WorkerJoined
from dragoman.core.why import Reason
from dragoman.model.fault import FaultCode
from dragoman.model.retry import Retry
from dragoman.model.terms import Terms


def broker(name: str, *route: str, **said: object) -> WorkerJoined:
    return joined(name, route=(name, *route), credit=10, credit_returns=True, **said)


def work(effects: object) -> SendWork:
    (found,) = [e for e in effects if isinstance(e, SendWork)]  # type: ignore[attr-defined]
    return found


def terms(effects: object) -> Terms:
    found = work(effects).terms
    assert found is not None
    return found


def test_own_workers_come_before_other_brokers(stage: Stage) -> None:
    stage.tell(broker("east"), joined("w1", credit=2, credit_returns=True))
    effects = stage.tell(*(submitted(f"j{n}") for n in range(3)))
    assert [worker for _, worker, _ in given(effects)] == ["w1", "w1", "east"]


def test_least_recent_use_does_not_prefer_a_broker_to_an_own_worker(stage: Stage) -> None:
    stage.tell(broker("east"), joined("w1", credit=2, credit_returns=True))
    effects = stage.tell(*(submitted(f"j{n}", balance="round_robin") for n in range(3)))
    assert [worker for _, worker, _ in given(effects)] == ["w1", "w1", "east"]


def test_a_job_never_goes_back_to_a_broker_it_has_passed(stage: Stage) -> None:
    stage.tell(broker("west"), broker("north", "west"))
    assert not given(stage.tell(submitted("j1", path=("west",))))
    assert stage.why("j1") is not Reason.ALL_BUSY
    assert [w for _, w, _ in given(stage.tell(broker("east")))] == ["east"]


def test_a_job_that_only_passed_brokers_could_take_ends_with_its_patience(stage: Stage) -> None:
    stage.tell(broker("west"), submitted("j1", path=("west",), patience=5.0))
    (ended,) = final(stage.wait(6.0))
    assert ended.fault is not None
    assert ended.fault.code is FaultCode.NO_WORKER
    assert kinds(stage.tell(submitted("j2", path=("west",), patience=0.0))) == ["refused"]


def test_all_workers_are_those_of_this_broker(stage: Stage) -> None:
    stage.tell(broker("east"), joined("w1"), joined("w2"))
    effects = stage.tell(submitted("j1", target="all"), submitted("j2", "all"))
    assert {worker for _, worker, _ in given(effects)} == {"w1", "w2"}


def test_the_next_broker_gets_the_time_that_is_left(stage: Stage) -> None:
    stage.tell(submitted("j1", timeout=60.0, queue_timeout=30.0, delay=2.0))
    stage.wait(12.0)
    left_over = terms(stage.tell(broker("east")))
    assert (left_over.timeout, left_over.queue_timeout) == (50.0, 20.0)
    assert (left_over.delay, left_over.not_before) == (0.0, 0.0)


def test_other_workers_get_no_terms(stage: Stage) -> None:
    stage.tell(joined("w1"))
    assert work(stage.tell(submitted("j1", timeout=60.0))).terms is None


def test_the_next_broker_times_an_attempt_and_not_this_one(stage: Stage) -> None:
    stage.tell(broker("east"))
    effects = stage.tell(submitted("j1", run_timeout=3.0))
    assert work(effects).run_until is None
    assert terms(effects).run_timeout == 3.0
    assert not final(stage.wait(100.0))


def test_after_a_restart_the_next_broker_still_times_the_attempt(stage: Stage) -> None:
    stage.tell(broker("east", rejoins_within=60.0), submitted("j1", run_timeout=30.0))
    stage.restart()
    stage.tell(broker("east", rejoins_within=60.0))
    assert not final(stage.wait(100.0))


def test_the_next_broker_has_the_retries_that_are_left(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1", retry=Retry(3, backoff=0.0)))
    stage.tell(broker("east"))
    effects = stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    assert terms(effects).retry == Retry(2, backoff=0.0)


def test_a_failure_at_the_next_broker_is_not_tried_again_here(stage: Stage) -> None:
    stage.tell(broker("east"), submitted("j1", retry=Retry(3, backoff=0.0)))
    (ended,) = final(stage.tell(finished("east", "j1", FaultCode.TASK_FAILED)))
    assert ended.fault is not None
    assert ended.fault.code is FaultCode.TASK_FAILED


def test_a_broker_that_hands_a_job_back_lets_another_worker_run_it(stage: Stage) -> None:
    stage.tell(broker("east"), submitted("j1"), joined("w1"))
    assert [w for _, w, _ in given(stage.tell(handed_back("east", "j1")))] == ["w1"]
