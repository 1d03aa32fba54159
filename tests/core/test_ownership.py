"""Declared resources follow the registered workers; jobs for moving resources wait."""

from tests.core.builders import Stage, finished, given, joined, kinds, left, peer, submitted

from dragoman.core.events import ResourcesDeclared, ResourcesSettled
from dragoman.core.ownership import weight_of
from dragoman.core.registry import RegisteredWorker
from dragoman.core.why import Reason
from dragoman.model.capacity import Capacity
from dragoman.model.names import ServiceName

NAMES = tuple(f"r{n}" for n in range(20))


def declared(*names: str, replicas: int = 1) -> ResourcesDeclared:
    return ResourcesDeclared(ServiceName("a"), names or NAMES, replicas)


def settled(*names: str) -> list[ResourcesSettled]:
    return [ResourcesSettled(peer(name)) for name in names]


def owned(stage: Stage, name: str) -> list[str]:
    owners = stage.broker.state.registry.owners
    return sorted(r for r, found in owners.items() if peer(name) in found)


def owner(stage: Stage, resource: str) -> str:
    (found,) = stage.broker.state.registry.owners[resource].values()
    return str(found.name)


def test_workers_share_what_is_declared_and_records_say_who_owns_what(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"))
    assert owned(stage, "w1") == sorted(NAMES)
    assert "owns" not in kinds(stage.tell(joined("w2")))
    # One record per worker, even after several joins and leaves.
    assert kinds(stage.wait(stage.limits.move_pause)) == ["owns", "owns"]
    assert sorted([*owned(stage, "w1"), *owned(stage, "w2")]) == sorted(NAMES)
    last = {r.worker: r for r in stage.records if r.kind == "owns"}
    assert last["w1"].detail.split("\n") == owned(stage, "w1")
    assert last["w2"].detail.split("\n") == owned(stage, "w2")
    stage.tell(left("w1"))
    assert owned(stage, "w2") == sorted(NAMES)
    stage.tell(left("w2"))
    assert stage.broker.state.registry.owners == {}


def test_it_does_not_matter_who_was_first(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), joined("house", is_builtin=True), declared())
    before = owned(stage, "w1")
    assert owned(stage, "house") == []
    other = Stage()
    other.tell(declared(), joined("w2"), joined("w1"))
    assert owned(other, "w1") == before


def test_jobs_for_a_resource_are_held_while_it_moves(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"))
    assert given(stage.tell(submitted("j1", target="resource:r1", patience=0))) == []
    assert given(stage.tell(*settled("w1"))) == [("j1", "w1", 1)]


def test_both_ends_of_a_move_have_to_know(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"), *settled("w1"), joined("w2"))
    moved, stayed = owned(stage, "w2")[0], owned(stage, "w1")[0]
    assert given(stage.tell(submitted("j1", target=f"resource:{stayed}"))) == [("j1", "w1", 1)]
    assert given(stage.tell(submitted("j2", target=f"resource:{moved}"))) == []
    assert given(stage.tell(*settled("w2"))) == []
    assert given(stage.tell(*settled("w1"))) == [("j2", "w2", 1)]


def test_who_does_not_confirm_holds_nobody_up_for_long(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"), submitted("j1", target="resource:r1", patience=0))
    assert given(stage.wait(stage.limits.move_pause + stage.limits.move_grace + 0.1)) == [
        ("j1", "w1", 1)
    ]


def test_a_list_and_a_glob_reach_every_owner_once(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"), joined("w2"), *settled("w1", "w2"))
    everybody = [("j1", "w1", 1), ("j1", "w2", 1)]
    assert sorted(given(stage.tell(submitted("j1", target="resource:r*")))) == everybody
    one = owned(stage, "w2")[0]
    assert given(stage.tell(submitted("j2", target=f"resource:{one},{one}"))) == [("j2", "w2", 1)]


def test_a_job_whose_owner_is_lost_goes_to_the_new_one(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"), joined("w2"), *settled("w1", "w2"))
    loser = owner(stage, "r1")
    heir = "w2" if loser == "w1" else "w1"
    stage.tell(submitted("j1", target="resource:r1"))
    assert given(stage.tell(left(loser))) == []
    assert stage.why() is Reason.MOVING
    assert given(stage.tell(*settled(heir))) == [("j1", heir, 2)]
    stage.tell(finished(heir, "j1"))
    assert stage.job().state == "succeeded"


def test_replicas_share_the_work(stage: Stage) -> None:
    stage.tell(declared("r1", replicas=2), joined("w1"), joined("w2"), *settled("w1", "w2"))
    first = given(stage.tell(submitted("j1", target="resource:r1")))[0][1]
    second = given(stage.tell(submitted("j2", target="resource:r1")))[0][1]
    assert {first, second} == {"w1", "w2"}


def test_what_is_no_longer_declared_is_nobodys(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"))
    stage.tell(declared("r1"))
    assert owned(stage, "w1") == ["r1"]
    stage.tell(ResourcesDeclared(ServiceName("a"), ()))
    assert owned(stage, "w1") == []
    assert stage.broker.state.distributions == {}


def test_a_worker_that_offers_something_else_now_has_no_share(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"), joined("w2"))
    stage.tell(joined("w1", "b"))
    assert owned(stage, "w1") == []
    assert owned(stage, "w2") == sorted(NAMES)


def test_announced_resources_stay_with_who_announced_them(stage: Stage) -> None:
    stage.tell(declared("r1"), joined("w1", resources=("own",)), joined("w2"))
    assert "own" in owned(stage, "w1")
    stage.tell(left("w1"))
    assert owned(stage, "w2") == ["r1"]


def test_weights_come_from_capacity(stage: Stage) -> None:
    def weight(**said: object) -> float:
        return weight_of(RegisteredWorker(joined("w", **said), 0.0))

    assert weight() == 1.0
    assert weight(capacity=Capacity(cpu=4.0)) == 4.0
    assert weight(capacity=Capacity(slots=3)) == 3.0
    assert weight(capacity=Capacity(memory=5)) == 1.0


def test_owners_are_announced_when_the_pause_is_over_and_not_before(stage: Stage) -> None:
    stage.tell(declared(), joined("w1"))
    assert "owns" not in kinds(stage.wait(stage.limits.move_pause / 2))
    assert kinds(stage.wait(stage.limits.move_pause / 2)) == ["owns"]
