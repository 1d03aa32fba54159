"""A snapshot of the fold is the fold."""

from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from tests.core.builders import Stage, finished, forwarded, joined, left, submitted
from tests.core.snapshot_checks import assert_snapshots_suffice, decoded, encoded

from dragoman.core.events import ScheduleDeclared, ScheduleTicked, ServicePaused, WorkerDrained
from dragoman.core.recovery import fold, forget_old, resume
from dragoman.core.snapshots import FOLD_VERSION, read_snapshot, write_snapshot
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.retry import Retry
from dragoman.model.schedule import Schedule


def busy_stage() -> Stage:
    """Make one of everything: queued, running, bound, forwarded, requeued, memoised, ended."""
    stage = Stage()
    stage.tell(
        joined("w1", credit=3, resources=("r1",)),
        submitted("retried", retry=Retry(2, backoff=9.0)),
        finished("w1", "retried", FaultCode.TASK_FAILED),
        submitted("delayed", delay=5.0),
        submitted("done", memoize=True, key="k"),
        finished("w1", "done"),
        submitted("alias", memoize=True, key="k"),
        submitted("running", client="c2", timeout=90.0, priority=4),
        submitted("all", target="all"),
        submitted("unbound", "b", target="all"),
        submitted("labelled", "b", target="labels:zone=eu"),
        submitted("resource", target="resource:r1,r2"),
        joined("w2", "b", credit=1),
        forwarded("w1", "running", "b"),
        left("w1"),
        submitted("queued", "c"),
        ServicePaused(ServiceName("c"), True, "broken"),
        WorkerDrained(WorkerName("w1"), True, "new disk"),
        ScheduleDeclared("tick", Schedule("tick", "a", every=5)),
        ScheduleTicked("tick", 1005, submitted("ticked")),
        submitted("dead", "b", max_attempts=1),
        left("w2"),
    )
    return stage


def test_a_snapshot_at_any_record_and_the_rest_are_the_whole() -> None:
    records = busy_stage().records
    for count in range(len(records) + 1):
        assert_snapshots_suffice(records[:count])


def test_a_broker_on_a_snapshot_does_what_one_on_all_records_does() -> None:
    stage = busy_stage()
    read = read_snapshot(decoded(encoded(write_snapshot(fold(stage.records)))))
    one, first = resume(fold(stage.records), stage.now, stage.limits)
    two, second = resume(read, stage.now, stage.limits)
    assert first == second
    two.validate()
    event = joined("w3", "c", credit=5)
    assert one.handle(event, stage.now) == two.handle(event, stage.now)


def test_texts_that_jobs_share_stand_once_in_memory() -> None:
    stage = Stage()
    stage.tell(*(submitted(f"j{n}", "a" * 20, client="c" * 20) for n in range(3)))
    read = read_snapshot(decoded(encoded(write_snapshot(fold(stage.records)))))
    jobs = list(read.jobs.values())
    assert len({id(job.service) for job in jobs}) == len({id(job.client) for job in jobs}) == 1
    assert len({id(job.terms) for job in jobs}) == len({id(job.target) for job in jobs}) == 1


def test_the_state_of_peers_is_a_part_of_the_fold() -> None:
    told = Record(1, 1.0, Kind.CHANGED, peer="ncl/n-1", nbytes=5, detail="a node")
    store = read_snapshot(decoded(encoded(write_snapshot(fold([told])))))
    assert store.peer_states == {"ncl/n-1": 1}
    gone = replace(told, seq=2, nbytes=0, detail="forgotten")
    assert fold([gone], store=store).peer_states == {}


def test_the_last_result_of_a_worker_is_known_until_it_leaves() -> None:
    stage = Stage()
    stage.tell(joined("w1"), submitted("j1"), finished("w1", "j1"), submitted("j2"))
    assert fold(stage.records).results == {"local/w1": stage.job("j1").parts[0].result_seq}
    stage.tell(left("w1"))
    assert fold(stage.records).results == {}


def test_finished_jobs_that_a_start_would_forget_can_be_left_out() -> None:
    stage = Stage()
    stage.tell(joined("w1"), submitted("old"), finished("w1", "old"))
    stage.wait(100)
    stage.tell(submitted("new"), finished("w1", "new"), submitted("open", "b"))
    store = fold(stage.records)
    forget_old(store, stage.now - 50)
    assert list(store.jobs) == [JobId("new"), JobId("open")]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"fold": FOLD_VERSION + 1}],
        [{"fold": FOLD_VERSION}],
        [{"nonsense": 1}],
        [{"fold": FOLD_VERSION}, [["text"], [["too", "short"]]], {"ids": 1}],
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: list[object]) -> None:
    with pytest.raises(ValueError, match=r"snapshot|version|missing"):
        read_snapshot(rows)


def test_a_change_of_the_fold_needs_a_new_version() -> None:
    """If the fold or its rows changed, raise FOLD_VERSION, then the figure below."""
    job = {"job": "j1", "service": "a", "client": "l/c", "submitted_at": 1.0}
    w1 = {"worker": "w1", "peer": "l/w1"}
    told: list[dict[str, Any]] = [
        {"kind": Kind.STARTED},
        {"kind": Kind.JOINED, "count": 30} | w1,
        {"kind": Kind.SUBMITTED, "target": "w1,w2", "nbytes": 3, "digest": "d", "key": "k"} | job,
        {"kind": Kind.BOUND, "detail": "w1\nw2"} | job,
        {"kind": Kind.DISPATCHED, "attempt": 1} | job | w1,
        {"kind": Kind.ACCEPTED, "attempt": 1} | job | w1,
        {"kind": Kind.REQUEUED, "fault": "handed_back", "detail": "busy"} | job | w1,
        {"kind": Kind.DISPATCHED, "part": 1, "attempt": 1, "count": 7} | job | w1,
        {"kind": Kind.GATHERED, "part": 1, "state": "succeeded", "nbytes": 2} | job | w1,
        {"kind": Kind.ADOPTED, "detail": "j1-again"} | job,
        {"kind": Kind.CANCEL_ASKED} | job,
        {"kind": Kind.CHANGED, "peer": "l/n", "nbytes": 1},
        {"kind": Kind.SUBMITTED, "job": "j2", "service": "a", "client": "l/c"},
        {"kind": Kind.DISPATCHED, "job": "j2", "attempt": 1} | w1,
        {"kind": Kind.ENDED, "job": "j2", "state": "failed", "fault": "task_failed"} | w1,
        {"kind": Kind.RESULT_FORGOTTEN, "job": "j2"},
        {"kind": Kind.DRAINED, "detail": "new disk"} | w1,
    ]
    records = [Record(seq, float(seq), **fields) for seq, fields in enumerate(told, 1)]
    rows = b"".join(encoded(write_snapshot(fold(records))))
    assert (FOLD_VERSION, crc32(rows)) == (10, 1_200_809_236)
