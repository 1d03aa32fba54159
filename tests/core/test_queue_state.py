from tests.core.builders import Stage, joined, left, submitted

from dragoman.core import queue_state
from dragoman.core.events import ScheduleDeclared, ServicePaused, WorkerDrained
from dragoman.core.queue_state import QueueState
from dragoman.model.names import ServiceName, WorkerName
from dragoman.model.schedule import Schedule


def test_the_state_reads_back_from_its_rows(stage: Stage) -> None:
    stage.tell(
        ScheduleDeclared("s", Schedule("s", "a", every=5)),
        ServicePaused(ServiceName("b"), True, "why not"),
        WorkerDrained(WorkerName("w2"), True, "new disk"),
        *(joined("w1"), submitted("j1", max_attempts=1), left("w1")),
    )
    queue = stage.broker.state.store.queue
    assert QueueState.of_rows(queue.rows()).as_recorded() == queue.as_recorded()
    assert list(queue.dead) == ["j1"]
    assert queue.drained == {"w2": "new disk"}


def test_the_oldest_dead_letter_goes_first(stage: Stage) -> None:
    most, queue_state.MOST_DEAD = queue_state.MOST_DEAD, 2  # type: ignore[misc]
    try:
        for name in ("j1", "j2", "j3"):
            stage.tell(joined("w1"), submitted(name, max_attempts=1), left("w1"))
        assert list(stage.broker.state.store.queue.dead) == ["j2", "j3"]
    finally:
        queue_state.MOST_DEAD = most  # type: ignore[misc]
