"""`why` explains every state of a job: one test per reason."""

from collections.abc import Callable

import pytest
from tests.core.builders import (
    Stage,
    cancelled,
    finished,
    handed_back,
    joined,
    left,
    replied,
    submitted,
)

from dragoman.core.events import ReplyKind, ResourcesDeclared, ServicePaused, WorkerDrained
from dragoman.core.why import Reason, why
from dragoman.model.capacity import Capacity
from dragoman.model.fault import FaultCode
from dragoman.model.limit import Limit
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.parent import Parent


def unknown(stage: Stage) -> None:
    stage.tell(submitted("another"))


def no_service(stage: Stage) -> None:
    stage.tell(submitted("j1"))


def no_match(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", target="labels:zone=mars"))


def no_capacity(stage: Stage) -> None:
    stage.tell(joined("w1", capacity=Capacity(cpu=1)), submitted("j1", needs=Capacity(cpu=2)))


def all_busy(stage: Stage) -> None:
    stage.tell(joined("w1", credit=0), submitted("j1"))


def refused_by_all(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), handed_back("w1", "j1"))


def backing_off(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", backoff=5.0), left("w1"))


def delayed(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", delay=5.0))


def paused(stage: Stage) -> None:
    stage.tell(ServicePaused(ServiceName("a"), True), joined("w1"), submitted("j1"))


def drained(stage: Stage) -> None:
    stage.tell(joined("w1"), WorkerDrained(WorkerName("w1"), True), submitted("j1"))


def limited(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1"), submitted("j0", limit=one), submitted("j1", limit=one))


def running(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))


def waiting_for_input(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), replied("w1", "j1", ReplyKind.INPUT_ASKED))


def worker_away(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), left("w1", grace=5.0))


def moving(stage: Stage) -> None:
    declared = ResourcesDeclared(ServiceName("a"), ("r1",))
    stage.tell(declared, joined("w1"), submitted("j1", target="resource:r1"))


def cancelling(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"), cancelled("j1"))


def succeeded(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"))


def failed(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1", FaultCode.TASK_FAILED))


def expired(stage: Stage) -> None:
    stage.tell(submitted("j1", patience=1.0))
    stage.wait(2.0)


def was_cancelled(stage: Stage) -> None:
    stage.tell(submitted("j1"), cancelled("j1"))


def deadlocked(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j0"))
    stage.tell(submitted("j1", client="w1", parent=Parent("j0", 1)))


def dead(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", max_attempts=1), left("w1"))


SCENES: dict[Reason, Callable[[Stage], None]] = {
    Reason.UNKNOWN: unknown,
    Reason.DELAYED: delayed,
    Reason.PAUSED: paused,
    Reason.DRAINED: drained,
    Reason.LIMITED: limited,
    Reason.NO_SERVICE: no_service,
    Reason.NO_MATCH: no_match,
    Reason.NO_CAPACITY: no_capacity,
    Reason.DEADLOCKED: deadlocked,
    Reason.ALL_BUSY: all_busy,
    Reason.REFUSED_BY_ALL: refused_by_all,
    Reason.BACKING_OFF: backing_off,
    Reason.RUNNING: running,
    Reason.WAITING_FOR_INPUT: waiting_for_input,
    Reason.WORKER_AWAY: worker_away,
    Reason.MOVING: moving,
    Reason.CANCELLING: cancelling,
    Reason.SUCCEEDED: succeeded,
    Reason.FAILED: failed,
    Reason.EXPIRED: expired,
    Reason.CANCELLED: was_cancelled,
    Reason.DEAD: dead,
}


def test_a_job_does_not_wait_for_a_drained_worker_beside_a_busy_one(stage: Stage) -> None:
    drained(stage)
    stage.tell(joined("w2", credit=0))
    assert stage.why() is Reason.ALL_BUSY


@pytest.mark.parametrize("reason", list(Reason))
def test_why_says(stage: Stage, reason: Reason) -> None:
    SCENES[reason](stage)
    found = why(stage.broker.state, JobId("j1"))
    assert found.reason is reason
    assert found.words


@pytest.mark.parametrize("target", ["all", "w9", "resource:r1"])
def test_a_job_that_waits_to_be_bound_says_what_is_missing(stage: Stage, target: str) -> None:
    stage.tell(submitted("j1", target=target))
    assert stage.why() is Reason.NO_SERVICE
    stage.tell(joined("w1"))
    assert stage.why() in (Reason.NO_MATCH, Reason.RUNNING)


def test_of_several_parts_the_one_that_waits_is_spoken_of(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2", credit=0), submitted("j1", target="all"))
    found = why(stage.broker.state, JobId("j1"))
    assert found.reason is Reason.ALL_BUSY
    assert found.words.startswith("0 of 2 parts done")


def test_why_names_the_worker_of_a_finished_job_and_the_wait_of_a_lost_one(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"), submitted("j2", backoff=5.0))
    assert why(stage.broker.state, JobId("j1")).worker == "w1"
    stage.tell(left("w1"))
    assert "starts in 5.0 s" in why(stage.broker.state, JobId("j2")).words
