"""The workers of an MDP link, and what they hold."""

from dragoman.dialects.mdp.wire import V2
from dragoman.dialects.mdp.workers import MdpAssignment, MdpWorker, MdpWorkers
from dragoman.model.names import JobId, PeerId, ServiceName

ECHO = ServiceName("echo")


def held(job: str, attempt: int = 1) -> MdpAssignment:
    return MdpAssignment(JobId(job), attempt, ECHO)


def worker(has_notes: bool = True) -> MdpWorker:
    return MdpWorker(PeerId("mdp/w1"), b"echo", V2, has_notes)


def test_the_client_frame_names_attempt_and_job() -> None:
    assert held("j/1", 3).envelope == b"3/j/1"


def test_a_new_attempt_replaces_the_old_one() -> None:
    one = worker()
    one.hold(held("j1"), 0.0)
    one.hold(held("j1", 2), 1.0)
    assert list(one.held) == [b"2/j1"]
    assert one.find(JobId("j1")) == held("j1", 2)


def test_a_silent_assignment_is_polled_for_repeatedly_and_a_report_postpones_it() -> None:
    one = worker()
    one.hold(held("j1"), 0.0)
    one.hold(held("j2"), 0.0)
    one.touch(held("j2"), 8.0)
    assert one.overdue(5.0, 15.0) == [held("j1")]
    assert one.overdue(10.0, 20.0) == [held("j2")]
    assert one.overdue(15.0, 25.0) == [held("j1")]
    one.drop(held("j1"))
    assert one.overdue(100.0, 101.0) == [held("j2")]


def test_only_our_own_worker_keeps_its_assignments_when_it_registers_again() -> None:
    for has_notes in (True, False):
        workers = MdpWorkers()
        peer = PeerId("mdp/w1")
        workers.join(b"w1", peer, b"echo", V2, has_notes).hold(held("j1"), 0.0)
        again = workers.join(b"w1", peer, b"echo", V2, has_notes)
        assert bool(again.held) is has_notes
        assert workers.leave(b"w1") is again
        assert workers.leave(b"w1") is None
