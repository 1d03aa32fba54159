"""Queued parts follow their resources to the new owner."""

from tests.core.builders import Stage, finished, given, handed_back, joined, kinds, left, peer
from tests.core.builders import submitted as submitted_

from dragoman.core.effects import SendReply, SendWork
from dragoman.core.events import JobSubmitted, ResourcesDeclared, ResourcesSettled
from dragoman.core.recovery import fold
from dragoman.core.why import Reason
from dragoman.model.names import ServiceName

NAMES = tuple(f"r{n}" for n in range(12))
EVERYBODY = ("w1", "w2", "w3")


def submitted(job: str, target: str) -> JobSubmitted:
    return submitted_(job, target=target, patience=60)


def settled(stage: Stage) -> list[ResourcesSettled]:
    return [ResourcesSettled(p) for p in stage.broker.state.registry.workers]


def fleet(*names: str, replicas: int = 1) -> Stage:
    """Return a stage whose workers take one job at a time and have confirmed their resources."""
    stage = Stage()
    stage.tell(ResourcesDeclared(ServiceName("a"), NAMES, replicas))
    come(stage, *names)
    return stage


def come(stage: Stage, *names: str) -> None:
    stage.tell(*(joined(name, credit=1, credit_returns=True) for name in names))
    stage.tell(*settled(stage))


def owned(stage: Stage, name: str) -> list[str]:
    owners = stage.broker.state.registry.owners
    return sorted(r for r, found in owners.items() if peer(name) in found)


def bound(stage: Stage, job: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(str(p.bound), p.resources) for p in stage.job(job).parts]


def as_folded(stage: Stage) -> bool:
    return fold(stage.records).as_recorded() == stage.broker.state.store.as_recorded()


def test_a_waiting_job_goes_to_the_worker_that_took_its_resource() -> None:
    stage = fleet("w1")
    stage.tell(submitted("busy", "resource:r0"), submitted("j1", "resource:*"))
    stage.tell(*(submitted(name, f"resource:{name}") for name in NAMES))
    effects = stage.tell(joined("w2"))
    gained = owned(stage, "w2")
    assert gained
    assert given(effects) == []
    assert all(bound(stage, name) == [("w2", (name,))] for name in gained)
    effects = stage.tell(*settled(stage))
    assert {job for job, to, _ in given(effects) if to == "w2"} == {*gained, "j1"}
    assert as_folded(stage)


def test_a_job_for_several_resources_is_split_between_their_new_owners() -> None:
    stage = fleet("w1")
    stage.tell(submitted("busy", "resource:r0"), submitted("j1", "resource:*"))
    effects = stage.tell(joined("w2"), joined("w3"))
    told = [e for e in effects if isinstance(e, SendReply)][-1]
    assert set(told.workers) == set(EVERYBODY)
    served = dict(bound(stage, "j1"))
    assert {name: sorted(resources) for name, resources in served.items()} == {
        name: owned(stage, name) for name in EVERYBODY
    }
    work = [e for e in stage.tell(*settled(stage)) if isinstance(e, SendWork)]
    assert {e.worker: e.target for e in work}[peer("w2")] == "resource:" + ",".join(served["w2"])
    stage.tell(finished("w2", "j1"), finished("w3", "j1"), finished("w1", "busy"))
    assert stage.job("j1").state == "running"
    replies = stage.tell(finished("w1", "j1"))
    assert stage.job("j1").state == "succeeded"
    (part,) = [e for e in replies if isinstance(e, SendReply) and e.worker == "w1"]
    assert sorted(part.resources) == owned(stage, "w1")
    assert as_folded(stage)


def test_what_waits_for_a_worker_that_is_gone_goes_to_the_heir() -> None:
    stage = fleet("w1", "w2")
    resource = owned(stage, "w1")[0]
    stage.tell(submitted("busy", f"resource:{resource}"), submitted("j1", f"resource:{resource}"))
    stage.tell(left("w1"))
    assert bound(stage, "j1") == [("w2", (resource,))]
    assert [job for job, _, _ in given(stage.tell(*settled(stage)))] == ["busy"]
    assert [job for job, _, _ in given(stage.tell(finished("w2", "busy")))] == ["j1"]


def test_what_waits_while_nobody_is_there_goes_to_whoever_comes() -> None:
    stage = fleet("w1")
    stage.tell(submitted("busy", "resource:r1"), submitted("j1", "resource:r1"))
    stage.tell(left("w1"))
    assert bound(stage, "j1") == [("w1", ("r1",))]
    assert stage.why("j1") is Reason.NO_SERVICE
    come(stage, "w2")
    assert bound(stage, "j1") == [("w2", ("r1",))]


def test_a_resource_that_another_worker_announces_takes_its_jobs_along() -> None:
    stage = Stage()
    one = {"credit": 1, "credit_returns": True, "resources": ("own",)}
    stage.tell(joined("w1", **one), submitted("busy", "resource:own"))
    stage.tell(submitted("j1", "resource:own"), left("w1"))
    assert "moved" in kinds(stage.tell(joined("w2", **one)))
    stage.tell(finished("w2", "busy"))
    stage.tell(finished("w2", "j1"))
    assert stage.job("j1").state == "succeeded"


def test_a_replica_that_still_owns_keeps_what_waits_for_it() -> None:
    stage = fleet("w1", "w2", replicas=2)
    stage.tell(submitted("busy", "resource:r0"), submitted("more", "resource:r0"))
    stage.tell(*(submitted(name, f"resource:{name}") for name in NAMES))
    before = {name: bound(stage, name)[0][0] for name in NAMES}
    come(stage, "w3")
    kept = [name for name in NAMES if name in owned(stage, before[name])]
    moved = [name for name in NAMES if name not in kept]
    assert kept
    assert moved
    assert all(bound(stage, name) == [(before[name], (name,))] for name in kept)
    assert all(bound(stage, name) == [("w3", (name,))] for name in moved)


def test_what_a_former_owner_hands_back_goes_to_the_new_one() -> None:
    rehearsal = fleet("w1")
    come(rehearsal, "w2")
    resource = owned(rehearsal, "w2")[0]
    stage = fleet("w1")
    assert given(stage.tell(submitted("j1", f"resource:{resource}"))) == [("j1", "w1", 1)]
    come(stage, "w2")
    stage.tell(handed_back("w1", "j1"))
    assert bound(stage, "j1") == [("w2", (resource,))]
    stage.tell(*settled(stage))
    stage.tell(finished("w2", "j1"))
    assert stage.job("j1").state == "succeeded"


def test_who_waits_in_the_queue_goes_before_what_was_held_for_a_move() -> None:
    rehearsal = fleet("w1")
    come(rehearsal, "w2")
    resource = owned(rehearsal, "w2")[0]
    stage = fleet("w1")
    stage.tell(
        submitted("busy", f"resource:{resource}"), submitted("first", f"resource:{resource}")
    )
    stage.tell(joined("w2", credit=1, credit_returns=True))
    # The resource moves to w2: queued parts follow it, new jobs are held.
    stage.tell(submitted("held", f"resource:{resource}"))
    assert bound(stage, "first") == [("w2", (resource,))]
    assert stage.why("held") is Reason.MOVING
    effects = stage.tell(*settled(stage))
    assert [job for job, to, _ in given(effects) if to == "w2"] == ["first"]


def test_a_moved_job_is_still_moved_after_a_restart() -> None:
    stage = fleet("w1")
    stage.tell(submitted("busy", "resource:r0"), submitted("j1", "resource:*"))
    stage.tell(joined("w2"), joined("w3"))
    before = bound(stage, "j1")
    stage.restart()
    assert bound(stage, "j1") == before
    assert {p.request_seq for p in stage.job("j1").parts} == {stage.job("j1").submit_seq}
