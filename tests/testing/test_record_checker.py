"""The record checker reports records that contradict earlier ones."""

from typing import Any

import pytest

from dragoman.core.events import (
    CreditGranted,
    DeliveryFailed,
    PeerLeft,
    ResourcesSettled,
    TimeAdvanced,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.terms import Terms, terms_text
from dragoman.testing.record_checker import RecordChecker

W1, W2 = PeerId("local/w1"), PeerId("local/w2")


def joined(peer: PeerId = W1, **said: Any) -> WorkerJoined:
    return WorkerJoined(peer, WorkerName(peer[6:]), (ServiceName("a"),), **said)


class Script:
    """Feeds numbered records to a checker."""

    def __init__(self, *workers: WorkerJoined) -> None:
        self.checker = RecordChecker()
        self.seq = 0
        for worker in workers or (joined(),):
            self.observe(worker)
            self.record(Kind.JOINED, peer=worker.worker)

    def observe(self, event: Any, now: float = 0.0) -> None:
        self.checker.observe(event, now)
        self.event = event

    def record(self, kind: Kind, job: str = "j1", body: Body | None = None, **said: Any) -> None:
        self.seq += 1
        self.checker.take(Record(self.seq, 0.0, kind, job, **said), body, self.event)

    def submit(self, **terms: Any) -> "Script":
        self.record(Kind.SUBMITTED, client="local/c", terms=terms_text(Terms(**terms)))
        return self

    def dispatch(self, attempt: int = 1, peer: PeerId = W1) -> "Script":
        self.record(Kind.DISPATCHED, attempt=attempt, peer=peer, worker=peer[6:])
        return self


def result(attempt: bytes = b"1", worker: bytes = b"w1") -> Body:
    return Body("local", (b"q", attempt, worker))


def test_an_ordinary_life_is_fine() -> None:
    script = Script().submit().dispatch()
    script.record(Kind.ENDED, state="succeeded", body=result())
    assert script.checker.held[W1] == 0


def test_a_job_is_not_taken_in_twice() -> None:
    with pytest.raises(AssertionError, match="twice"):
        Script().submit().submit()


def test_a_job_runs_in_one_place_at_a_time() -> None:
    with pytest.raises(AssertionError, match="while local/w1 has it"):
        Script(joined(), joined(W2)).submit().dispatch().dispatch(2, W2)


def test_attempts_count_up_by_one() -> None:
    with pytest.raises(AssertionError, match="attempt 2 after 0"):
        Script().submit().dispatch(2)


def test_attempts_have_a_bound() -> None:
    script = Script().submit(max_attempts=1).dispatch()
    script.observe(PeerLeft(W1, "left"))
    script.record(Kind.REQUEUED, peer=W1, fault="worker_lost")
    with pytest.raises(AssertionError, match="tried 2 times"):
        script.dispatch(2)


def test_a_final_state_is_final() -> None:
    script = Script().submit()
    script.record(Kind.ENDED, state="cancelled")
    with pytest.raises(AssertionError, match="although it ended cancelled"):
        script.dispatch()


def test_a_cancelled_job_does_not_start() -> None:
    script = Script().submit()
    script.record(Kind.CANCEL_ASKED)
    with pytest.raises(AssertionError, match="although it was cancelled"):
        script.dispatch()


@pytest.mark.parametrize("body", [result(attempt=b"7"), result(worker=b"w2")])
def test_a_stale_result_is_noticed(body: Body) -> None:
    with pytest.raises(AssertionError, match=r"stale result|answers for"):
        Script().submit().dispatch().record(Kind.ENDED, state="succeeded", body=body)


def test_nothing_goes_to_a_worker_without_a_session() -> None:
    with pytest.raises(AssertionError, match="which left"):
        Script(joined(W2)).submit().dispatch()


def test_credit_is_spent_only_once() -> None:
    script = Script(joined(credit=1)).submit().dispatch()
    script.observe(DeliveryFailed(W1, False, JobId("j1"), 1))
    assert script.checker.credit[W1] == 1
    script.observe(CreditGranted(W1, 2))
    assert script.checker.credit[W1] == 3
    with pytest.raises(AssertionError, match="had no credit"):
        Script(joined(credit=0)).submit().dispatch()


def test_a_window_is_not_exceeded() -> None:
    with pytest.raises(AssertionError, match="holds more than its window"):
        Script(joined(credit=0, credit_returns=True)).submit().dispatch()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (PeerLeft(W1, "left", 5.0), "does not wait"),
        (joined(holds=None), "which says it has it"),
        (joined(holds=frozenset({JobId("j1")})), "which says it has it"),
        (PeerLeft(W2, "left"), "without a reason"),
        (TimeAdvanced(), "lost after 0.000 of 3.000 s"),
    ],
)
def test_a_worker_is_not_lost_without_a_reason(event: Any, words: str) -> None:
    script = Script(joined(beat_every=1.0, missed_allowed=3)).submit().dispatch()
    script.observe(event)
    with pytest.raises(AssertionError, match=words):
        script.record(Kind.REQUEUED, peer=W1, fault="worker_lost")


def test_a_worker_that_was_silent_for_its_lease_is_lost() -> None:
    script = Script(joined(beat_every=1.0, missed_allowed=3)).submit().dispatch()
    script.observe(TimeAdvanced(), now=3.0)
    script.record(Kind.REQUEUED, peer=W1, fault="worker_lost")


def test_a_gathered_job_has_all_its_parts() -> None:
    script = Script().submit()
    script.record(Kind.BOUND, detail="w1\nw2")
    script.dispatch().record(Kind.GATHERED, state="succeeded", body=result())
    with pytest.raises(AssertionError, match="1 of 2 parts"):
        script.record(Kind.ENDED, state="succeeded")


def test_a_job_is_found_by_the_id_it_was_asked_by() -> None:
    script = Script().submit()
    script.record(Kind.ADOPTED, client="local/c2", detail="j2")
    assert script.checker.client_of("j2") == "local/c2"


def test_an_event_sent_for_a_worker_is_no_sign_of_life() -> None:
    script = Script(joined(beat_every=1.0, missed_allowed=3)).submit().dispatch()
    script.observe(ResourcesSettled(W1), now=2.0)
    assert script.checker.heard_at[W1] == 0.0
