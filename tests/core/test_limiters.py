"""Limits of services, tasks and keys: who runs, who waits, and what survives."""

from dataclasses import replace
from typing import Any

from tests.core.builders import (
    Stage,
    cancelled,
    finished,
    forwarded,
    given,
    handed_back,
    joined,
    left,
    submitted,
    undelivered,
)

from dragoman.core.events import JobSubmitted, ServiceLimited, ServicePaused
from dragoman.core.why import Reason, why
from dragoman.model.fault import FaultCode
from dragoman.model.limit import NO_LIMIT, Limit
from dragoman.model.names import JobId, Principal, ServiceName
from dragoman.model.record import Kind
from dragoman.model.retry import Retry

TWO = Limit("user:42", concurrency=2)
SLOW = Limit("user:42", rate=1, per=10)


def limited(service: str = "a", task: str = "", **members: Any) -> ServiceLimited:
    return ServiceLimited(ServiceName(service), Limit(**members), task)


def with_task(event: JobSubmitted, task: str) -> JobSubmitted:
    return replace(event, task=task)


def running(stage: Stage) -> list[str]:
    workers = (*stage.broker.state.registry.workers.values(), *stage.broker.state.absent.values())
    return sorted(part.job.id for worker in workers for part in worker.held.values())


def words(stage: Stage, job: str) -> str:
    return why(stage.broker.state, JobId(job)).words


def test_jobs_over_the_limit_of_their_key_wait_and_block_no_others(stage: Stage) -> None:
    stage.tell(joined("w1"), *(submitted(f"u{n}", limit=TWO) for n in range(4)))
    stage.tell(submitted("other"), submitted("another", limit=Limit("user:43", concurrency=1)))
    assert running(stage) == ["another", "other", "u0", "u1"]
    assert stage.why("u2") is Reason.LIMITED
    assert words(stage, "u2") == "waits for the limit user:42 (2 of 2 running: u0, u1)"
    assert given(stage.tell(finished("w1", "u0"))) == [("u2", "w1", 1)]


def test_a_freed_slot_goes_to_another_worker_if_its_own_is_gone(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1", credit=1, credit_returns=True), submitted("j1", limit=one))
    stage.tell(joined("w2"), submitted("j2", limit=one, priority=1))
    assert running(stage) == ["j1"]
    assert given(stage.tell(left("w1"))) == [("j2", "w2", 1)]


def test_a_lost_worker_gives_its_slots_back(stage: Stage) -> None:
    stage.tell(joined("w1"), joined("w2", "b"), *(submitted(f"u{n}", limit=TWO) for n in range(3)))
    stage.tell(left("w1"), joined("w3"))
    assert running(stage) == ["u0", "u1"]
    stage.tell(finished("w3", "u0"), finished("w3", "u1"))
    assert running(stage) == ["u2"]


def test_every_way_out_of_a_worker_gives_the_slot_back(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1"), joined("w2"), submitted("j1", limit=one), submitted("j2", limit=one))
    holder = next(w.name for w in stage.broker.state.registry.workers.values() if w.held)
    stage.tell(handed_back(holder, "j1"))
    assert len(running(stage)) == 1
    [job] = running(stage)
    holder = next(w.name for w in stage.broker.state.registry.workers.values() if w.held)
    attempt = stage.broker.state.store.jobs[JobId(job)].parts[0].attempt
    stage.tell(undelivered(holder, job, attempt))
    assert len(running(stage)) == 1


def test_a_retried_job_waits_without_a_slot(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1"), submitted("j1", limit=one, retry=Retry(1, backoff=5.0)))
    stage.tell(submitted("j2", limit=one), finished("w1", "j1", FaultCode.TASK_FAILED))
    assert running(stage) == ["j2"]
    stage.wait(6.0)
    assert running(stage) == ["j2"]
    assert stage.why("j1") is Reason.LIMITED
    stage.tell(finished("w1", "j2"))
    assert running(stage) == ["j1"]


def test_a_limit_holds_over_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1", credit=9), *(submitted(f"u{n}", limit=TWO) for n in range(4)))
    stage.restart()
    stage.tell(joined("w2"))
    assert running(stage) == ["u0", "u1"], "the absent worker's jobs count"
    assert "2 of 2 running: u0, u1" in words(stage, "u2")
    stage.tell(joined("w1", credit=9, holds=()))
    assert len(running(stage)) == 2


def test_priorities_and_ages_hold_among_jobs_of_one_key(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1"), submitted("first", limit=one))
    stage.tell(submitted("low", limit=one), submitted("high", limit=one, priority=5))
    stage.tell(submitted("other low", limit=one))
    order = [given(stage.tell(finished("w1", job)))[0][0] for job in ("first", "high", "low")]
    assert order == ["high", "low", "other low"]


def test_clients_take_turns_for_a_shared_key(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1"), submitted("first", limit=one))
    stage.tell(*(submitted(f"f{n}", client="flood", limit=one) for n in range(3)))
    stage.tell(submitted("calm", client="calm", limit=one))
    order = [given(stage.tell(finished("w1", job)))[0][0] for job in ("first", "f0", "calm")]
    assert order == ["f0", "calm", "f1"]


def test_principals_do_not_share_keys(stage: Stage) -> None:
    one = Limit("k", concurrency=1)
    stage.tell(joined("w1"), submitted("j1", limit=one))
    stage.tell(replace(submitted("j2", limit=one), principal=Principal("ada")))
    assert running(stage) == ["j1", "j2"]


def test_jobs_of_one_key_may_state_different_numbers(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", limit=Limit("k", concurrency=1)))
    stage.tell(submitted("j2", limit=Limit("k", concurrency=1)))
    stage.tell(submitted("j3", limit=Limit("k", concurrency=2)))
    assert running(stage) == ["j1", "j3"]
    stage.tell(finished("w1", "j1"))
    assert running(stage) == ["j3"], "one of two runs, so the job that wants one waits"
    stage.tell(finished("w1", "j3"))
    assert running(stage) == ["j2"]


def test_a_service_and_a_task_have_limits_of_their_own(stage: Stage) -> None:
    stage.tell(limited(concurrency=2), limited(task="heavy", concurrency=1), joined("w1", "a", "b"))
    stage.tell(*(with_task(submitted(f"h{n}"), "heavy") for n in range(2)))
    assert running(stage) == ["h0"]
    assert words(stage, "h1") == "waits for the limit task a heavy (1 of 1 running: h0)"
    stage.tell(submitted("light"), submitted("third"), submitted("elsewhere", "b"))
    assert running(stage) == ["elsewhere", "h0", "light"]
    assert words(stage, "third") == "waits for the limit service a (2 of 2 running: h0, light)"
    stage.tell(finished("w1", "light"))
    assert running(stage) == ["elsewhere", "h0", "third"]


def test_the_limit_of_a_service_holds_for_its_versions_together(stage: Stage) -> None:
    stage.tell(limited(concurrency=1), joined("w1", "a", "a@1.2"))
    stage.tell(submitted("j1"), submitted("j2", "a@1.2"))
    assert running(stage) == ["j1"]


def test_a_job_that_is_forwarded_counts_for_its_new_service(stage: Stage) -> None:
    stage.tell(limited("b", concurrency=1), joined("w1", "a", "b"), submitted("b1", "b"))
    stage.tell(submitted("j1"), forwarded("w1", "j1", "b"))
    assert running(stage) == ["b1"]
    stage.tell(finished("w1", "b1"))
    assert running(stage) == ["j1"]


def test_a_limit_that_changes_counts_the_jobs_that_run(stage: Stage) -> None:
    stage.tell(joined("w1"), *(submitted(f"j{n}") for n in range(2)), limited(concurrency=2))
    stage.tell(submitted("j2"), submitted("j3"))
    assert running(stage) == ["j0", "j1"]
    stage.tell(limited(concurrency=3))
    assert running(stage) == ["j0", "j1", "j2"]
    stage.tell(ServiceLimited(ServiceName("a"), NO_LIMIT))
    assert running(stage) == ["j0", "j1", "j2", "j3"]
    assert (stage.records[-2].kind, stage.records[-2].detail) == (Kind.LIMITED, "{}")


def test_a_limit_that_is_the_same_is_not_recorded_again(stage: Stage) -> None:
    stage.tell(limited(concurrency=2))
    count = len(stage.records)
    stage.tell(limited(concurrency=2), ServiceLimited(ServiceName("b"), NO_LIMIT))
    assert len(stage.records) == count


def test_a_rate_lets_a_burst_start_and_then_one_job_each_period(stage: Stage) -> None:
    stage.tell(limited(rate=2, per=10.0), joined("w1"))
    stage.tell(*(submitted(f"j{n}") for n in range(4)))
    assert running(stage) == ["j0", "j1"]
    assert stage.why("j2") is Reason.LIMITED
    assert words(stage, "j2") == (
        "waits for the limit service a (2 in 10 s); the next token comes in 5.0 s"
    )
    assert given(stage.wait(4.9)) == []
    assert given(stage.wait(0.2)) == [("j2", "w1", 1)]
    assert given(stage.wait(5.0)) == [("j3", "w1", 1)]


def test_spent_tokens_survive_a_restart(stage: Stage) -> None:
    stage.tell(joined("w1"), *(submitted(f"j{n}", limit=SLOW) for n in range(2)))
    stage.wait(4.0)
    stage.restart()
    stage.tell(joined("w2"))
    assert given(stage.wait(5.9)) == []
    assert given(stage.wait(0.2)) == [("j1", "w2", 1)]


def test_each_attempt_takes_a_token(stage: Stage) -> None:
    stage.tell(joined("w1"), submitted("j1", limit=SLOW, retry=Retry(1, backoff=0.0)))
    stage.tell(finished("w1", "j1", FaultCode.TASK_FAILED))
    assert running(stage) == []
    assert stage.why("j1") is Reason.LIMITED
    assert given(stage.wait(10.1)) == [("j1", "w1", 2)]


def test_a_token_without_a_worker_is_not_spent(stage: Stage) -> None:
    stage.tell(submitted("j1", limit=SLOW), submitted("j2", limit=SLOW))
    stage.wait(30.0)
    assert given(stage.tell(joined("w1"))) == [("j1", "w1", 1)]
    assert given(stage.wait(10.1)) == [("j2", "w1", 1)]


def test_limits_and_pauses_hold_together(stage: Stage) -> None:
    stage.tell(limited(concurrency=1), joined("w1"), submitted("j1"), submitted("j2"))
    stage.tell(ServicePaused(ServiceName("a"), True), finished("w1", "j1"))
    assert running(stage) == []
    stage.tell(ServicePaused(ServiceName("a"), False))
    assert running(stage) == ["j2"]


def test_a_job_for_all_workers_takes_a_slot_for_each(stage: Stage) -> None:
    stage.tell(*(joined(f"w{n}") for n in range(4)), submitted("j1", target="all", limit=TWO))
    assert running(stage) == ["j1", "j1"]
    first = next(w.name for w in stage.broker.state.registry.workers.values() if w.held)
    stage.tell(finished(first, "j1"))
    assert running(stage) == ["j1", "j1"]


def test_a_key_that_nothing_uses_costs_nothing(stage: Stage) -> None:
    stage.tell(joined("w1", credit=1, credit_returns=True))
    for n in range(20):
        limit = Limit(f"k{n}", concurrency=1)
        stage.tell(submitted(f"a{n}", limit=limit), submitted(f"b{n}", limit=limit))
        stage.tell(finished("w1", f"a{n}"), cancelled(f"b{n}"))
    assert not stage.broker.state.limiters.by_name
