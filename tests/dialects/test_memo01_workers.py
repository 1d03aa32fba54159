"""The table of workers and its timers."""

from dragoman.dialects.memo01.workers import MemoWorker, MemoWorkers
from dragoman.model.names import PeerId

ONE, TWO = b"connect1", b"connect2"


def worker(workers: MemoWorkers, name: str, address: bytes) -> MemoWorker:
    found = MemoWorker(name.encode(), PeerId(f"memo/{name}"), address)
    workers.add_connection(address[:8])
    workers.add(found)
    workers.move(found, address)
    return found


def test_a_worker_is_found_by_id_by_peer_and_by_its_ready() -> None:
    workers = MemoWorkers()
    found = worker(workers, "w", ONE + b"1111")
    assert workers.by_id[b"w"] is found
    assert workers.of_peer(PeerId("memo/w")) is found
    assert workers.has_ready(ONE + b"1111")
    workers.drop(found)
    assert not len(workers)
    assert workers.of_peer(PeerId("memo/w")) is None
    assert not workers.has_ready(ONE + b"1111")


def test_the_end_of_a_connection_names_the_workers_last_heard_on_it() -> None:
    workers = MemoWorkers()
    stays, moves = worker(workers, "a", ONE + b"1111"), worker(workers, "b", ONE + b"2222")
    workers.add_connection(TWO)
    workers.move(moves, TWO + b"3333")
    assert workers.end_connection(ONE) == [stays]
    assert workers.end_connection(ONE) == []
    assert (stays.connection, moves.connection) == (None, TWO)


def test_a_worker_that_comes_back_is_on_its_new_connection() -> None:
    workers = MemoWorkers()
    found = worker(workers, "a", ONE + b"1111")
    workers.end_connection(ONE)
    workers.add_connection(TWO)
    workers.move(found, TWO + b"3333")
    assert workers.end_connection(TWO) == [found]


def test_what_is_due_comes_in_order() -> None:
    workers = MemoWorkers()
    a, b = worker(workers, "a", ONE + b"1111"), worker(workers, "b", ONE + b"2222")
    workers.set_due(a, 20.0)
    workers.set_due(b, 10.0)
    assert workers.next_due() == 10.0
    assert workers.pop_due(9.0) is None
    assert workers.pop_due(25.0) is b
    assert workers.pop_due(25.0) is a
    assert workers.pop_due(25.0) is None
    assert workers.next_due() is None


def test_a_deadline_may_be_moved_either_way_or_taken_away() -> None:
    workers = MemoWorkers()
    later, sooner, never = (worker(workers, n, ONE + n.encode() * 4) for n in "abc")
    for each in (later, sooner, never):
        workers.set_due(each, 10.0)
    workers.set_due(later, 30.0)
    workers.set_due(sooner, 5.0)
    workers.set_due(never, None)
    assert workers.pop_due(6.0) is sooner
    assert workers.pop_due(29.0) is None
    assert workers.pop_due(30.0) is later
    assert workers.pop_due(1e9) is None


def test_a_busy_worker_costs_one_timer_however_many_jobs_it_runs() -> None:
    workers = MemoWorkers()
    found = worker(workers, "a", ONE + b"1111")
    for n in range(10_000):
        workers.set_due(found, 10.0 + n)
    assert len(workers._timers) == 1
    assert workers.pop_due(1e6) is found


def test_nothing_is_due_for_a_worker_that_was_dropped() -> None:
    workers = MemoWorkers()
    found = worker(workers, "a", ONE + b"1111")
    workers.set_due(found, 10.0)
    workers.drop(found)
    assert workers.pop_due(11.0) is None
