"""Retention removes the records that no later start needs, and only those."""

from tests.core.builders import Stage, body, finished, joined, left, submitted
from tests.core.snapshot_checks import assert_needed_records_suffice
from tests.core.test_snapshots import busy_stage

from dragoman.core.events import Noted, ServiceLimited, ServicePaused, WorkerDrained
from dragoman.core.limits import Limits
from dragoman.core.needed_records import NeededRecords
from dragoman.model.limit import NO_LIMIT, Limit
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind


def needed(stage: Stage) -> list[tuple[str, str]]:
    is_needed = NeededRecords(stage.broker.state.store)
    return [(str(r.kind), r.job) for r in stage.records if is_needed(r)]


def test_a_start_on_the_needed_records_and_the_rest_is_a_start_on_all() -> None:
    records = busy_stage().records
    for count in range(len(records) + 1):
        assert_needed_records_suffice(records[:count])


def test_an_unfinished_job_needs_its_own_records_only() -> None:
    stage = Stage(Limits(finished_jobs=0))
    stage.tell(submitted("waits", "b"), joined("w1"))
    stage.tell(submitted("done"), finished("w1", "done"), submitted("runs"), left("w1"))
    assert needed(stage) == [
        ("submitted", "waits"),
        ("submitted", "runs"),
        ("dispatched", "runs"),
        ("requeued", "runs"),
    ]


def test_a_finished_job_is_needed_until_it_is_forgotten() -> None:
    stage = Stage(Limits(retention=60.0))
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"), left("w1"))
    assert ("submitted", "j1") in needed(stage)
    stage.wait(61.0)
    assert needed(stage) == []


def test_an_earlier_job_of_the_same_id_is_not_needed() -> None:
    stage = Stage(Limits(finished_jobs=0))
    stage.tell(joined("w1"), submitted("again"), finished("w1", "again"), left("w1"))
    stage.tell(submitted("again", "b"))
    assert needed(stage) == [("submitted", "again")]


def test_a_worker_that_is_here_needs_its_last_join() -> None:
    stage = Stage()
    stage.tell(joined("w1"), joined("w1", "a", "b"))
    assert needed(stage) == [("resynced", "")]
    stage.tell(left("w1"))
    assert needed(stage) == []


def test_a_pause_is_needed_until_the_service_is_resumed() -> None:
    stage = Stage()
    stage.tell(ServicePaused(ServiceName("a"), True, "broken"))
    assert needed(stage) == [("paused", "")]
    stage.tell(ServicePaused(ServiceName("a"), False))
    assert needed(stage) == []


def test_a_drain_is_needed_until_the_worker_is_undrained() -> None:
    stage = Stage()
    stage.tell(WorkerDrained(WorkerName("w1"), True, "new disk"))
    assert needed(stage) == [("drained", "")]
    stage.tell(WorkerDrained(WorkerName("w1"), False))
    assert needed(stage) == []


def test_the_last_limit_of_a_service_is_needed() -> None:
    stage = Stage()
    for most in (1, 2):
        stage.tell(ServiceLimited(ServiceName("a"), Limit(concurrency=most)))
    assert needed(stage) == [("limited", "")]
    stage.tell(ServiceLimited(ServiceName("a"), NO_LIMIT))
    assert needed(stage) == []


def test_voided_results_stay_void_wherever_the_ledger_is_cut() -> None:
    stage = Stage()
    stage.tell(joined("w1"), submitted("j1", memoize=True), finished("w1", "j1"))
    stage.tell(Noted(Kind.FORGOTTEN, service=ServiceName("a")))
    assert ("forgotten", "") in needed(stage)
    assert_needed_records_suffice(stage.records)


def test_the_last_recorded_state_of_a_peer_is_needed() -> None:
    stage = Stage()
    peer = PeerId("ncl/n1")
    for _ in range(2):
        stage.tell(Noted(Kind.CHANGED, peer=peer, body=body()))
    assert needed(stage) == [("changed", "")]
