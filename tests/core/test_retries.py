"""Retries of failed tasks, and delayed jobs: events in, effects out."""

from typing import Any

import pytest
from tests.core.builders import (
    Stage,
    cancelled,
    final,
    finished,
    given,
    joined,
    kinds,
    left,
    peer,
    submitted,
)

from dragoman.core.events import ReplyKind, ReplyReceived
from dragoman.core.why import Reason, why
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.retry import Retry, label_text, try_again_text

FAILED = FaultCode.TASK_FAILED


def failed(worker: str, job: str, message: str) -> ReplyReceived:
    fault = Fault(FAILED, message)
    return ReplyReceived(peer(worker), JobId(job), ReplyKind.FINAL, fault=fault)


def test_a_failed_task_runs_again_after_its_back_off(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(2, backoff=1.0)))
    assert kinds(stage.tell(finished("w1", "j1", FAILED))) == ["requeued"]
    assert stage.why() is Reason.BACKING_OFF
    assert given(stage.wait(0.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w1", 2)]
    stage.tell(finished("w1", "j1", FAILED))
    assert given(stage.wait(1.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w1", 3)]
    (reply,) = final(stage.tell(finished("w1", "j1")))
    assert reply.state is JobState.SUCCEEDED


def test_a_task_says_itself_after_how_long_it_wants_to_run_again(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=60.0)))
    stage.tell(failed("w1", "j1", try_again_text(2.0, "the server asks for a pause")))
    assert given(stage.wait(1.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w1", 2)]
    (reply,) = final(stage.tell(failed("w1", "j1", try_again_text(2.0, "again"))))
    assert reply.state is JobState.FAILED, "its retries are used up"


def test_a_task_that_fails_too_often_fails_with_its_last_fault(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=0.0)))
    stage.tell(failed("w1", "j1", "KeyError: 1"))
    (reply,) = final(stage.tell(failed("w1", "j1", "KeyError: 2")))
    assert reply.state is JobState.FAILED
    assert reply.fault == Fault(FAILED, "KeyError: 2")
    assert "2 attempts: KeyError: 2" in why(stage.broker.state, JobId("j1")).words


def test_each_attempt_is_on_record_with_its_fault(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=3.0)))
    stage.tell(failed("w1", "j1", "KeyError: 1"))
    record = stage.records[-1]
    assert (record.kind, record.attempt, record.worker) == ("requeued", 1, "w1")
    assert (record.fault, record.detail, record.count) == ("task_failed", "KeyError: 1", 3000)
    words = why(stage.broker.state, JobId("j1")).words
    assert words == "attempt 1 failed (KeyError: 1); the next one starts in 3.0 s"


def test_a_permanent_failure_is_final(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(5)))
    (reply,) = final(stage.tell(failed("w1", "j1", "Permanent: no such user")))
    assert reply.state is JobState.FAILED


def test_only_the_named_exceptions_are_retried(stage: Stage) -> None:
    retry = Retry(5, backoff=0.0, on=("ConnectionError",))
    stage.tell(joined("w1"), submitted("j1", retry=retry))
    found = kinds(stage.tell(failed("w1", "j1", "ConnectionError: reset")))
    assert found == ["requeued", "dispatched"]
    assert kinds(stage.tell(failed("w1", "j1", "KeyError: 1"))) == ["ended"]


def test_losses_and_failures_are_counted_apart(stage: Stage) -> None:
    terms: dict[str, Any] = {"retry": Retry(2, backoff=0.0), "max_attempts": 2}
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="w1,w2", **terms))
    stage.tell(finished("w1", "j1", FAILED))
    stage.tell(left("w1"), joined("w1"))
    stage.tell(finished("w1", "j1", FAILED))
    part: Any = stage.job().parts[0]
    assert (part.attempt, part.failures, part.losses) == (4, 2, 2)
    assert str(part.state) == "running"
    stage.tell(left("w1"))
    assert str(part.state) == "dead"
    assert part.fault.message.startswith("the worker was lost in 2 attempts; 2 failed")


def test_the_deadline_is_above_all(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(5, backoff=9.0), timeout=5.0))
    (reply,) = final(stage.tell(finished("w1", "j1", FAILED)))
    assert reply.state is JobState.FAILED


def test_a_cancelled_job_is_not_retried(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1", retry=Retry(5)), cancelled("j1"))
    assert kinds(stage.tell(finished("w1", "j1", FAILED))) == ["ended"]


def test_a_job_that_backs_off_can_be_cancelled(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(5)), finished("w1", "j1", FAILED))
    (reply,) = final(stage.tell(cancelled("j1")))
    assert reply.state is JobState.CANCELLED
    assert given(stage.wait(60.0)) == []


def test_a_run_that_takes_too_long_is_retried_if_asked_for(stage: Stage) -> None:
    retry = Retry(1, backoff=0.0, on=("run_timeout",))
    stage.tell(joined("w1", credit=9), submitted("j1", retry=retry, run_timeout=2.0))
    assert given(stage.wait(2.0)) == [("j1", "w1", 2)]
    assert stage.tell(finished("w1", "j1", attempt=1))[0].record.kind == "late"  # type: ignore[union-attr]
    (reply,) = final(stage.tell(finished("w1", "j1", attempt=2)))
    assert reply.state is JobState.SUCCEEDED


def test_a_worker_announces_the_retries_of_its_task(stage: Stage) -> None:
    labels = {"retry.add": label_text(Retry(1, backoff=0.0))}
    job = submitted("j1")
    job.task = "add"  # type: ignore[misc]
    stage.tell(joined("w1", labels=labels), job)
    assert kinds(stage.tell(finished("w1", "j1", FAILED))) == ["requeued", "dispatched"]
    assert kinds(stage.tell(finished("w1", "j1", FAILED))) == ["ended"]


def test_a_back_off_survives_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", retry=Retry(1, backoff=30.0)))
    stage.tell(finished("w1", "j1", FAILED))
    stage.restart()
    stage.tell(joined("w1"))
    assert stage.why() is Reason.BACKING_OFF
    assert given(stage.wait(29.0)) == []
    assert given(stage.wait(1.1)) == [("j1", "w1", 2)]


@pytest.mark.parametrize("target", ["any", "all", "w1"])
def test_a_delayed_job_starts_when_its_delay_is_over(stage: Stage, target: str) -> None:
    stage.tell(joined("w1"))
    assert given(stage.tell(submitted("j1", delay=5.0, target=target, timeout=3.0))) == []
    assert stage.why() is Reason.DELAYED
    stage.restart()
    stage.tell(joined("w1"))
    assert given(stage.wait(4.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w1", 1)]
    (reply,) = final(stage.tell(finished("w1", "j1")))
    assert reply.state is JobState.SUCCEEDED


def test_a_job_does_not_start_before_its_instant(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", not_before=stage.now + 7.0, delay=1.0))
    assert given(stage.wait(6.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w1", 1)]


def test_a_delayed_job_can_be_cancelled_and_counts_as_queued(stage: Stage) -> None:
    stage.limits.queued_jobs = 1  # type: ignore[misc]
    stage.tell(submitted("j1", delay=5.0, patience=0.0))
    (refusal,) = final(stage.tell(submitted("j2")))
    assert refusal.fault is not None
    assert refusal.fault.code is FaultCode.QUEUE_FULL
    (reply,) = final(stage.tell(cancelled("j1")))
    assert reply.state is JobState.CANCELLED
    assert stage.broker.state.queues.is_empty
