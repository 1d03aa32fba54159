"""The read-only view."""

from tests.core.builders import (
    Stage,
    cancelled,
    finished,
    joined,
    left,
    peer,
    submitted,
    undelivered,
)

from dragoman.core import view
from dragoman.core.events import DrainRequested, WorkerDrained
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName


def test_a_service_is_shown_with_its_workers_and_what_waits(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1), submitted("j1"), submitted("j2"), submitted("j3", "b"))
    stage.tell(submitted("j4", "b", target="all"))
    rows = {str(row.name): row for row in view.services(stage.broker.state)}
    a, b = rows["a"], rows["b"]
    assert (a.workers, a.free, a.queued, a.queued_bytes, a.running) == (1, 0, 1, 8, 1)
    assert (b.workers, b.free, b.queued, b.running) == (0, 0, 2, 0)


def test_a_worker_is_shown_with_its_standing(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"), submitted("j2"), joined("w3"))
    stage.tell(submitted("j3"), joined("w4"))
    stage.tell(left("w1", grace=9.0), DrainRequested(peer("w2")), undelivered("w3", "j3"))
    stage.tell(joined("w5"), WorkerDrained(WorkerName("w5"), True))
    standing = {row.name: row.status for row in view.workers(stage.broker.state)}
    shown = {"w1": "away", "w2": "draining", "w3": "blocked", "w4": "alive", "w5": "drained"}
    assert standing == shown


def test_a_worker_is_shown_with_its_labels(stage: Stage) -> None:
    stage.tell(joined("w1", labels={"zone": "eu", "dragoman.prefetch": "2"}))
    assert [row.labels for row in view.workers(stage.broker.state)] == [{"zone": "eu"}]


def test_clients_are_shown_in_the_order_they_were_heard(stage: Stage) -> None:
    stage.tell(submitted("j1", client="c1"), submitted("j2", client="c2"))
    stage.tell(submitted("j3", client="c1"))
    rows = [(row.peer, row.jobs) for row in view.clients(stage.broker.state)]
    assert rows == [(peer("c2"), 1), (peer("c1"), 2)]


def test_totals_count_everything_that_was_recorded(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"), submitted("j2"))
    stage.tell(submitted("j3", "nowhere", patience=0.0))
    totals = view.totals(stage.broker.state)
    assert (totals.jobs, totals.open_jobs, totals.succeeded, totals.refused) == (2, 1, 1, 1)
    assert totals.records == len(stage.records)


def test_jobs_are_shown_newest_first_by_state_and_up_to_a_bound(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"), submitted("j2"))
    state = stage.broker.state
    assert [job.job for job in view.jobs(state)] == ["j2", "j1"]
    assert [job.job for job in view.jobs(state, JobState.SUCCEEDED)] == ["j1"]
    assert [job.job for job in view.jobs(state, limit=1)] == ["j2"]
    found = view.job(state, JobId("j2"))
    assert found is not None
    assert found.state is JobState.RUNNING
    assert view.job(state, JobId("never")) is None


def test_a_service_without_a_queue_has_nothing_queued(stage: Stage) -> None:
    stage.tell(joined("w1"))
    (row,) = view.services(stage.broker.state)
    assert (row.workers, row.free, row.queued, row.queued_bytes, row.running) == (1, 1, 0, 0, 0)


def test_a_job_is_shown_as_cancelling_until_it_has_ended(stage: Stage) -> None:
    stage.tell(joined("w1", can_cancel=True), submitted("j1"))
    seen = []
    for event in (cancelled("j1"), finished("w1", "j1", FaultCode.CANCELLED)):
        before = view.job(stage.broker.state, JobId("j1"))
        stage.tell(event)
        after = view.job(stage.broker.state, JobId("j1"))
        assert before is not None
        assert after is not None
        seen.append((before.is_cancelling, after.is_cancelling))
    assert seen == [(False, True), (True, False)]
