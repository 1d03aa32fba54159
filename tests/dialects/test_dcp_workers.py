"""The job of a reply, and the table of workers."""

from dragoman.dialects.dcp.workers import DcpAssignment, DcpWorker, DcpWorkers
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName


def held(job: str, client: bytes = b"C1", metadata: tuple[bytes, ...] = (b"m",)) -> DcpAssignment:
    body = Body("dcp", (*metadata, b"", b"d"))
    return DcpAssignment(JobId(job), 1, ServiceName("echo"), body, (client, metadata))


def test_a_reply_is_matched_by_client_and_metadata() -> None:
    worker = DcpWorker(PeerId("dcp/W1"))
    for each in (held("j1"), held("j2", b"C2"), held("j3", metadata=(b"m", b"n"))):
        worker.hold(each, 0.0)
    assert worker.find(b"C2", (b"m", b"")) == held("j2", b"C2")
    assert worker.find(b"C1", (b"m", b"n", b"")) == held("j3", metadata=(b"m", b"n"))
    assert worker.find(b"C1", (b"x", b"")) is None
    assert worker.find(b"C9", (b"m", b"")) is None


def test_the_oldest_of_those_that_look_the_same_is_first() -> None:
    worker = DcpWorker(PeerId("dcp/W1"))
    for job in ("j1", "j2"):
        worker.hold(held(job), 0.0)
    assert worker.find(b"C1", (b"m", b"")) == held("j1")
    worker.drop(JobId("j1"))
    assert worker.find(b"C1", (b"m", b"")) == held("j2")
    worker.drop(JobId("j2"))
    assert not worker.is_busy
    worker.drop(JobId("j2"))


def test_a_new_attempt_takes_the_place_of_the_old_one() -> None:
    worker = DcpWorker(PeerId("dcp/W1"))
    worker.hold(held("j1"), 0.0)
    worker.hold(held("j1", metadata=(b"again",)), 0.0)
    assert worker.find(b"C1", (b"again", b"")) == held("j1", metadata=(b"again",))
    worker.drop(JobId("j1"))
    assert not worker.is_busy


def test_a_worker_that_left_while_busy_may_still_reply() -> None:
    workers = DcpWorkers()
    workers.join(b"W1", PeerId("dcp/W1")).hold(held("j1"), 0.0)
    workers.join(b"W2", PeerId("dcp/W2"))
    assert workers.leave(b"W1")
    assert workers.leave(b"W2")
    assert not workers.leave(b"W2")
    found = workers.find(b"W1")
    assert found is not None
    assert found.holding(JobId("j1")) == held("j1")
    assert workers.find(b"W2") is None
    assert workers.join(b"W1", PeerId("dcp/W1")) is found


def test_the_table_of_departed_workers_is_bounded() -> None:
    workers = DcpWorkers()
    for n in range(10_100):
        address = b"%d" % n
        workers.join(address, PeerId(f"dcp/{n}")).hold(held("j"), 0.0)
        workers.leave(address)
    assert workers.find(b"99") is None
    assert workers.find(b"100") is not None


def test_a_late_reply_is_not_matched_with_the_only_held_request() -> None:
    worker = DcpWorker(PeerId("dcp/W1"))
    worker.hold(held("j1"), 0.0)
    assert worker.find(b"C1", (b"of another request", b"")) is None
    assert worker.find(b"C1", (b"", b"no metadata at all")) == held("j1")


def test_a_silent_assignment_is_polled_for_repeatedly() -> None:
    worker = DcpWorker(PeerId("dcp/W1"))
    one, two = held("j1"), held("j2", b"C2")
    worker.hold(one, 0.0)
    worker.hold(two, 5.0)
    assert worker.overdue(-1.0, 9.0) == []
    assert worker.overdue(0.0, 10.0) == [one]
    assert worker.overdue(5.0, 15.0) == [two]
    assert worker.overdue(10.0, 20.0) == [one]
    worker.drop(JobId("j1"))
    assert worker.overdue(100.0, 110.0) == [two]


def test_requests_that_look_the_same_are_not_polled_for() -> None:
    worker = DcpWorker(PeerId("dcp/W1"))
    worker.hold(held("j1"), 0.0)
    worker.hold(held("j2"), 0.0)
    assert worker.overdue(10.0, 20.0) == []
    worker.drop(JobId("j1"))
    assert worker.overdue(20.0, 30.0) == [held("j2")]


def test_a_declaration_drops_all_but_what_it_names_and_what_may_have_crossed_it() -> None:
    worker = DcpWorkers().join(b"W1", PeerId("dcp/W1"))
    for job, at in (("old", 0.0), ("named", 0.0), ("new", 8.0)):
        worker.hold(held(job), at)
    worker.keep_only(frozenset({JobId("named")}), 10.0)
    found = [job for job in ("old", "named", "new") if worker.holding(JobId(job))]
    assert found == ["named", "new"]
