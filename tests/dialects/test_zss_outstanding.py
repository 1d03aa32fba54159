"""Which request a reply answers."""

from dragoman.dialects.zss.outstanding import OutstandingRequest, OutstandingRequests
from dragoman.model.names import JobId, PeerId, ServiceName

W, W2 = PeerId("zss_backend/W"), PeerId("zss_backend/W2")


def asked(job: str, rid: bytes = b"r", worker: PeerId = W, attempt: int = 1) -> OutstandingRequest:
    return OutstandingRequest(worker, b"client#1", rid, JobId(job), attempt, ServiceName("pong"))


def test_only_the_instance_that_was_asked_can_answer() -> None:
    requests = OutstandingRequests()
    requests.add(asked("j1"), 0.0)
    assert requests.find(W, b"client#1", b"r") == asked("j1")
    assert requests.find(W2, b"client#1", b"r") is None
    assert requests.find(W, b"client#2", b"r") is None
    assert requests.find(W, b"client#1", b"other") is None


def test_of_requests_that_look_the_same_the_oldest_is_answered_first() -> None:
    requests = OutstandingRequests()
    requests.add(asked("j1"), 0.0)
    requests.add(asked("j2"), 0.0)
    requests.drop(W, JobId("j1"))
    assert requests.find(W, b"client#1", b"r") == asked("j2")
    requests.drop(W, JobId("j2"))
    requests.drop(W, JobId("j2"))
    assert len(requests) == 0


def test_a_new_attempt_takes_the_place_of_the_old_one() -> None:
    requests = OutstandingRequests()
    requests.add(asked("j1"), 0.0)
    requests.questions[W, JobId("j1")] = "r1"
    requests.add(asked("j1", attempt=2), 0.0)
    assert len(requests) == 1
    assert requests.of_job(W, JobId("j1")) == asked("j1", attempt=2)
    assert requests.questions == {}


def test_a_silent_assignment_is_polled_for_repeatedly() -> None:
    requests = OutstandingRequests()
    requests.add(asked("j1", b"r1"), 0.0)
    requests.add(asked("j2", b"r2"), 5.0)
    requests.add(asked("j3", b"r3", W2), 0.0)
    assert requests.overdue(W, -1.0, 9.0) == []
    assert requests.overdue(W, 0.0, 10.0) == [asked("j1", b"r1")]
    assert requests.overdue(W, 5.0, 15.0) == [asked("j2", b"r2")]
    assert requests.overdue(W, 10.0, 20.0) == [asked("j1", b"r1")]
    requests.drop(W, JobId("j1"))
    requests.drop(W, JobId("j2"))
    assert requests.overdue(W, 100.0, 110.0) == []


def test_requests_that_look_the_same_are_not_polled_for() -> None:
    requests = OutstandingRequests()
    requests.add(asked("j1"), 0.0)
    requests.add(asked("j2"), 0.0)
    assert requests.overdue(W, 10.0, 20.0) == []
    requests.drop(W, JobId("j1"))
    assert requests.overdue(W, 20.0, 30.0) == [asked("j2")]
