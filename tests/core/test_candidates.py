"""`why` lists the workers that could run a job, and why each does not."""

from typing import Any

from tests.core.builders import Stage, finished, handed_back, joined, submitted, undelivered

from dragoman.core.candidates import MAX_CANDIDATES, format_capacity
from dragoman.core.why import Reason, why
from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.names import JobId

NODES = ("small", "full", "busy", "picky")


def standings(stage: Stage, job: str = "j1") -> dict[str, tuple[str, str]]:
    found = why(stage.broker.state, JobId(job))
    return {c.worker: (c.standing, c.detail) for c in found.candidates}


def node(name: str, cpu: float, **said: Any) -> Any:
    return joined(name, capacity=Capacity(cpu=cpu), **said)


def test_every_node_says_what_stands_in_its_way(stage: Stage) -> None:
    needs = Capacity(cpu=4)
    stage.tell(node("full", 4), submitted("other", needs=needs))
    stage.tell(node("small", 1), node("busy", 8, credit=0), node("picky", 8))
    stage.tell(submitted("j1", needs=needs), handed_back("picky", "j1"))
    assert standings(stage) == {
        "picky": ("refused", "refused: said so"),
        "small": ("lacks_capacity", "has cpu 1 in total; the job needs cpu 4"),
        "full": ("full", "has nothing free; the job needs cpu 4"),
        "busy": ("busy", "holds 0 jobs"),
    }
    assert "picky (said so)" in why(stage.broker.state, JobId("j1")).words


def test_a_node_that_took_it_is_told_with_those_that_would_not(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"), handed_back("w1", "j1"))
    found = why(stage.broker.state, JobId("j1"))
    assert (found.reason, found.worker) == (Reason.RUNNING, "w2")
    assert "refused by w1" in found.words
    assert [(c.worker, c.standing) for c in found.candidates] == [("w1", "gone")]


def test_refusals_are_still_known_after_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), handed_back("w1", "j1"))
    stage.restart()
    stage.tell(joined("w1", credit=0))
    assert standings(stage) == {"w1": ("refused", "refused: said so")}


def test_one_that_cannot_be_reached_and_one_that_could_take_it_are_told_apart(
    stage: Stage,
) -> None:
    stage.tell(joined("w1"), submitted("j1"), undelivered("w1", "j1"))
    assert standings(stage)["w1"][1] == "refused: w1 could not be reached: queue full"
    stage.tell(joined("w2", credit=0), submitted("j2"))
    assert standings(stage, "j2") == {
        "w1": ("unreachable", "its connection accepts no more messages"),
        "w2": ("busy", "holds 0 jobs"),
    }
    stage.tell(joined("w1"), finished("w1", "j1"))


def test_there_is_a_bound_to_what_is_told(stage: Stage) -> None:
    stage.tell(*(joined(f"w{n}", credit=0) for n in range(MAX_CANDIDATES + 5)), submitted("j1"))
    assert len(standings(stage)) == MAX_CANDIDATES


def test_amounts_are_named() -> None:
    assert format_capacity(Capacity(cpu=0.5, gpu=1)) == "cpu 0.5, gpu 1"
    assert format_capacity(NOTHING) == "nothing"
