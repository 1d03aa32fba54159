"""Which workers a target matches, and what happens if none is registered."""

import pytest
from tests.core.builders import (
    Stage,
    final,
    finished,
    forwarded,
    given,
    handed_back,
    joined,
    kinds,
    left,
    submitted,
)

from dragoman.core.effects import SendReply, SendWork
from dragoman.core.events import ReplyKind
from dragoman.model.fault import FaultCode
from dragoman.model.job import JobState
from dragoman.model.target import OnResource


def workers_of(stage: Stage, **said: object) -> list[str]:
    return sorted(w for _, w, _ in given(stage.tell(submitted("j1", **said))))  # type: ignore[arg-type]


def test_all_means_everybody_of_the_service(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), joined("w3", "b"))
    assert workers_of(stage, target="all") == ["w1", "w2"]


def test_names_mean_those_that_are_registered(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), joined("w3", "b"))
    assert workers_of(stage, target="w2,w9,w3") == ["w2", "w3"]


def test_a_label_expression_means_one_worker_that_matches(stage: Stage) -> None:
    stage.tell(
        joined("w1"), joined("w2", labels={"zone": "eu"}), joined("w3", labels={"zone": "eu"})
    )
    assert workers_of(stage, target="labels:zone=eu") == ["w2"]


@pytest.mark.parametrize(
    ("resources", "workers"),
    [(("r1",), ["w1"]), (("r1", "r2"), ["w1", "w2"]), (("r*",), ["w1", "w2"])],
)
def test_a_resource_means_its_least_loaded_owner(
    stage: Stage, resources: tuple[str, ...], workers: list[str]
) -> None:
    stage.tell(joined("w1", resources=("r1",)), joined("w2", resources=("r2", "r3")))
    stage.tell(joined("w3", "b", resources=("r1",)))
    assert workers_of(stage, target=OnResource(resources)) == workers


def test_every_service_at_once_means_one_worker_of_each(stage: Stage) -> None:
    stage.tell(joined("w1", "a"), joined("w2", "a"), joined("w3", "b"))
    assert workers_of(stage, service="all") == ["w1", "w3"]


def test_everybody_of_every_service_means_all_workers(stage: Stage) -> None:
    stage.tell(joined("w1", "a"), joined("w2", "a"), joined("w3", "b"))
    assert workers_of(stage, service="all", target="all") == ["w1", "w2", "w3"]


def test_a_client_hears_once_who_has_its_job(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"))
    effects = stage.tell(submitted("j1", target="all"))
    told = [e.workers for e in effects if isinstance(e, SendReply) and e.workers]
    assert told == [("w1", "w2")]


def test_a_job_without_patience_is_refused_at_once(stage: Stage) -> None:
    effects = stage.tell(submitted("j1", patience=0.0))
    assert kinds(effects) == ["refused"]
    fault = final(effects)[0].fault
    assert fault is not None
    assert fault.code is FaultCode.NO_WORKER


def test_a_job_without_patience_waits_for_a_worker_that_is_only_busy(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1"))
    assert kinds(stage.tell(submitted("j2", patience=0.0))) == ["submitted"]
    assert given(stage.tell(finished("w1", "j1"))) == [("j2", "w1", 1)]


@pytest.mark.parametrize("target", ["any", "all", "w1", "labels:!x", "resource:r1"])
def test_patience_ends_when_nobody_comes(stage: Stage, target: str) -> None:
    stage.tell(submitted("j1", target=target, patience=5.0))
    assert final(stage.wait(4.9)) == []
    [reply] = final(stage.wait(0.2))
    assert reply.state is JobState.EXPIRED
    assert reply.fault is not None
    assert reply.fault.code is FaultCode.NO_WORKER


@pytest.mark.parametrize("target", ["any", "all", "w1", "labels:!x", "resource:r1"])
def test_whoever_comes_in_time_gets_what_waited(stage: Stage, target: str) -> None:
    stage.tell(submitted("j1", target=target, patience=5.0))
    assert given(stage.tell(joined("w1", resources=("r1",)))) == [("j1", "w1", 1)]
    assert final(stage.wait(60)) == []


def test_patience_starts_again_when_the_last_worker_leaves(stage: Stage) -> None:
    stage.tell(joined("w1", credit=0), submitted("j1", patience=5.0))
    stage.wait(100)
    stage.tell(left("w1"))
    assert final(stage.wait(4.9)) == []
    assert [r.state for r in final(stage.wait(0.2))] == [JobState.EXPIRED]


def test_a_job_without_patience_that_lost_its_worker_waits_for_another(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", patience=0.0))
    assert final(stage.tell(left("w1"))) == []
    assert given(stage.tell(joined("w2"))) == [("j1", "w2", 2)]
    stage.tell(left("w2"))
    assert [r.state for r in final(stage.wait(15.1))] == [JobState.EXPIRED]


def test_patience_starts_when_a_worker_no_longer_offers_the_service(stage: Stage) -> None:
    stage.tell(joined("w1", "a", credit=0), submitted("j1", patience=5.0))
    stage.tell(joined("w1", "b", credit=0))
    assert [r.state for r in final(stage.wait(5.1))] == [JobState.EXPIRED]


def test_a_name_is_bound_when_its_worker_comes_with_another_service(stage: Stage) -> None:
    stage.tell(joined("w1", "a"), submitted("j1", target="w2"))
    assert given(stage.tell(joined("w2", "b"))) == [("j1", "w2", 1)]


def test_a_new_worker_serves_first_who_waited_and_then_what_was_bound_to_it(stage: Stage) -> None:
    stage.tell(joined("w2", "a", credit=0), submitted("waits", client="c2"))
    stage.tell(submitted("bound", client="c1", target="w1"))
    first = stage.tell(joined("w1", "a", credit=1, credit_returns=True))
    assert given(first) == [("waits", "w1", 1)]
    assert given(stage.tell(finished("w1", "waits"))) == [("bound", "w1", 1)]


def test_nobody_holds_two_parts_of_one_job(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all"), joined("w3", "b"))
    assert given(stage.tell(forwarded("w1", "j1", "b"))) == [("j1", "w3", 2)]
    assert given(stage.tell(forwarded("w2", "j1", "b"))) == []
    assert given(stage.tell(finished("w3", "j1"))) == [("j1", "w3", 3)]
    assert [r.state for r in final(stage.tell(finished("w3", "j1")))] == [JobState.SUCCEEDED]


def test_an_heir_that_had_another_part_gets_the_next_under_another_number(stage: Stage) -> None:
    stage.tell(joined("w1", resources=("r1", "r2")), joined("w2", resources=("r2",)))
    stage.tell(submitted("j0"), submitted("j1", target=OnResource(("r1", "r2"))))
    assert len(stage.job().parts) == 2
    stage.tell(handed_back("w1", "j1"))
    assert given(stage.wait(1.1)) == [("j1", "w1", 2)]
    stage.tell(finished("w1", "j1"))
    assert given(stage.tell(left("w2"))) == [("j1", "w1", 3)]


def test_numbers_that_other_parts_used_are_no_tries(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2"), submitted("j1", target="all", max_attempts=2))
    stage.tell(forwarded("w1", "j1", "b"), forwarded("w2", "j1", "b"))
    stage.tell(joined("w3", "b"), joined("w4", "b"), left("w3"))
    assert [p.attempt - p.returned for p in stage.job().parts] == [1, 1]
    assert stage.job().state is JobState.RUNNING


def test_who_handed_a_job_back_is_asked_again_after_a_while(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"))
    assert given(stage.tell(handed_back("w1", "j1"))) == []
    assert given(stage.wait(1.1)) == [("j1", "w1", 2)]


def test_others_are_asked_at_once_when_one_hands_a_job_back(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    assert given(stage.tell(handed_back("w1", "j1"))) == [("j1", "w2", 2)]


def test_work_says_when_its_time_is_over(stage: Stage) -> None:
    stage.tell(joined("w1"))
    effects = stage.tell(
        submitted("j1"),
        submitted("j2", run_timeout=9.0),
        submitted("j3", run_timeout=9.0, timeout=5),
    )
    until = [e.run_until for e in effects if isinstance(e, SendWork)]
    assert until == [None, stage.now + 9, stage.now + 5]


def test_a_second_attempt_is_not_announced_again(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1"), joined("w2"))
    effects = stage.tell(left("w1"))
    assert given(effects) == [("j1", "w2", 2)]
    told = [e for e in effects if isinstance(e, SendReply) and e.kind is ReplyKind.DISPATCHED]
    assert told == []
