"""The fold of parents and children."""

from tests.core.builders import Stage, finished, joined, submitted

from dragoman.core.recovery import fold
from dragoman.core.snapshots import read_snapshot, write_snapshot
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId
from dragoman.model.parent import Parent
from dragoman.model.retry import Retry


def test_a_snapshot_restores_children_and_which_are_held(stage: Stage) -> None:
    stage.tell(joined("w1", credit=9), submitted("j1", retry=Retry(1, backoff=0.0)))
    for n in (1, 2, 3):
        stage.tell(submitted(f"k{n}", client="w1", parent=Parent("j1", n)))
    stage.tell(finished("w1", "k2"), finished("w1", "k3", FaultCode.TASK_FAILED))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    store = read_snapshot(write_snapshot(fold(stage.records)))
    families = store.families
    assert [job.id for job in store.finished] == ["k3"]
    assert [job.id for job in families.of(JobId("j1"))] == ["k1", "k2"]
    assert [job.id for job in families.open_of(JobId("j1"))] == ["k1"]
    assert list(families.held) == ["k2"]


def test_after_a_snapshot_ended_children_do_not_count_as_open(stage: Stage) -> None:
    stage.tell(joined("w1", credit=9), submitted("j1"))
    stage.tell(submitted("k1", client="w1", parent=Parent("j1", 1)), finished("w1", "k1"))
    families = read_snapshot(write_snapshot(fold(stage.records))).families
    assert not families.has_open(JobId("j1"))


def test_a_job_whose_parent_was_forgotten_is_finished_like_any_other() -> None:
    stage = Stage()
    stage.tell(joined("w1", credit=9), submitted("j1"))
    stage.tell(submitted("k1", client="w1", parent=Parent("j1", 1)), finished("w1", "j1"))
    store = fold(stage.records)
    store.forget(store.finished.popleft())
    stage.tell(finished("w1", "k1"))
    store.apply(stage.records[-1])
    assert [job.id for job in store.finished] == ["k1"]
    assert not store.families.held
