"""A standby folds what comes, and takes over when nobody leads."""

import threading
import time
from pathlib import Path

import apsw
import pytest
from tests.ledger.entries import run

from dragoman.core.broker import Broker
from dragoman.core.effects import Append
from dragoman.core.events import JobSubmitted
from dragoman.core.job_store import JobStore
from dragoman.ledger.base import Entry
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection
from dragoman.ledger.replicated import ReplicatedLedger
from dragoman.ledger.snapshots import MemorySnapshots
from dragoman.ledger.stream_codec import LedgerMessage
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.server.lease import Lease
from dragoman.server.standby import Standby
from dragoman.testing.memory_bucket import BucketConnection, MemoryBucket


class Node:
    """A copy, a lease and a standby on shared servers."""

    def __init__(self, folder: Path, name: str, stream: MemoryStream, bucket: MemoryBucket) -> None:
        self.stream = StreamConnection(stream)
        self.bucket = BucketConnection(bucket)
        self.ledger = ReplicatedLedger(folder / name / "ledger.db", self.stream, patience=0.01)
        self.lease = Lease(self.bucket, name)
        self.standby = Standby(self.ledger, self.lease, MemorySnapshots(), 1000)


class Site:
    """Two nodes; the first one leads, with a broker that writes jobs."""

    def __init__(self, folder: Path) -> None:
        stream, bucket = MemoryStream(), MemoryBucket(2.0, time.monotonic)
        self.a, self.b = (Node(folder, name, stream, bucket) for name in "ab")
        assert self.a.standby.run()
        self.a.ledger.lead()
        self.broker = Broker()

    def submit(self, number: int) -> None:
        event = JobSubmitted(
            JobId(f"j{number}"), PeerId("x/c"), ServiceName("math"), Body("nfp", (b"x",))
        )
        effects = self.broker.handle(event, 1000.0 + number)
        entries = [Entry(e.record, e.body) for e in effects if isinstance(e, Append)]
        run(self.a.ledger.append(entries))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def jobs(store: JobStore) -> set[str]:
    return {str(job) for job in store.jobs}


def test_what_the_leader_writes_is_folded_as_it_comes(site: Site) -> None:
    site.submit(1)
    site.b.standby.follow(0.0)
    assert jobs(site.b.standby.store) == {"j1"}
    site.submit(2)
    site.b.standby.follow(0.0)
    assert jobs(site.b.standby.store) == {"j1", "j2"}
    assert site.b.standby.store.last_seq == site.a.ledger.last_seq


def test_a_standby_takes_over_when_the_lease_is_released_and_has_everything(site: Site) -> None:
    site.submit(1)
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(site.b.standby.run()))
    thread.start()
    site.submit(2)
    site.a.lease.release()
    thread.join(20.0)
    assert found == [True]
    assert site.b.lease.is_held
    assert jobs(site.b.standby.store) == {"j1", "j2"}
    assert site.b.ledger.lead() == site.a.ledger.epoch + 1


def test_a_standby_that_is_stopped_does_not_lead(site: Site) -> None:
    site.b.standby.stop()
    assert not site.b.standby.run()
    assert not site.b.lease.is_held


def test_a_node_that_stepped_down_lets_others_go_first(site: Site) -> None:
    site.a.lease.release()
    patient = Standby(
        site.a.ledger, site.a.lease, MemorySnapshots(), 10, not_before=time.monotonic() + 3600
    )
    assert not patient.step(0.0)
    site.b.lease.take(2)
    assert not patient.step(0.0)
    site.b.lease.release()
    assert patient.step(0.0)


def test_a_standby_waits_for_servers_that_do_not_answer(site: Site) -> None:
    site.b.stream.is_cut = True
    thread = threading.Thread(target=site.b.standby.run)
    thread.start()
    site.a.lease.release()
    site.b.stream.is_cut = False
    thread.join(20.0)
    assert site.b.lease.is_held


def test_a_fold_begins_anew_with_the_copy(site: Site) -> None:
    site.submit(1)
    site.b.standby.follow(0.0)
    for number in range(2, 30):
        site.submit(number)
    run(site.a.ledger.retain(keep_records=3))
    site.b.standby.follow(0.0)
    store = site.b.standby.store
    assert store.is_cut
    assert store.last_seq == site.a.ledger.last_seq
    assert "j1" not in jobs(store)


def test_a_standby_whose_disk_is_full_waits_and_misses_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        site.submit(number)
    store, stored = ReplicatedLedger._store, list[int]()

    def full_once(ledger: ReplicatedLedger, message: LedgerMessage, first: int, last: int) -> None:
        stored.append(first)
        if len(stored) == 2:
            raise apsw.FullError("database or disk is full")
        store(ledger, message, first, last)

    monkeypatch.setattr(ReplicatedLedger, "_store", full_once)
    site.b.standby.is_connected = True
    assert not site.b.standby.attempt(0.0)
    followed = [site.b.standby.is_connected]
    while len(jobs(site.b.standby.store)) < 3:
        site.b.standby.attempt(0.0)
    followed.append(site.b.standby.is_connected)
    assert followed == [False, True]
    assert list(site.b.ledger.read()) == list(site.a.ledger.read())


def test_a_standby_hears_the_clock_of_the_leader_it_follows(site: Site) -> None:
    site.b.standby.step(0.0)
    site.submit(1)
    site.b.standby.step(0.0)
    assert 1001.0 <= site.b.standby.time.now() < 1100.0


def test_records_from_before_its_start_say_nothing_of_the_clock(site: Site) -> None:
    site.submit(1)
    site.b.standby.step(0.0)
    assert site.b.standby.time.now() > 1_000_000.0
