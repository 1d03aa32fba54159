"""How much of the broker one principal may have."""

from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, Principal
from dragoman.model.record import Kind, Record
from dragoman.security.allowances import CONNECTED_FOR, UNLIMITED, Allowance, Bucket, Meter

ALICE, BOB = Principal("alice"), Principal("bob")


def ended(job: str, kind: Kind = Kind.ENDED, fault: str = "") -> Record:
    return Record(1, 0.0, kind, job, fault=fault)


def test_a_bucket_gives_a_second_of_its_rate_at_once_and_then_its_rate() -> None:
    bucket = Bucket()
    assert [bucket.take(3.0, 0.0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(3.0, 0.3)
    assert bucket.take(3.0, 0.7)
    assert [bucket.take(3.0, 100.0) for _ in range(4)] == [True, True, True, False]


def test_a_rate_below_one_allows_one_request_in_a_while() -> None:
    bucket = Bucket()
    assert bucket.take(0.5, 0.0)
    assert not bucket.take(0.5, 1.0)
    assert bucket.take(0.5, 2.0)


def test_a_clock_that_goes_backwards_adds_no_tokens() -> None:
    bucket = Bucket()
    assert bucket.take(1.0, 100.0)
    assert not bucket.take(1.0, 0.0)


def test_without_bounds_nothing_is_refused() -> None:
    meter = Meter()
    for number in range(1000):
        assert not meter.request(ALICE, UNLIMITED, 0.0)
        assert not meter.result(ALICE, UNLIMITED, 0.0)
        assert not meter.connect(ALICE, PeerId(f"nfp/{number}"), UNLIMITED, 0.0)
        assert not meter.submit(ALICE, UNLIMITED, JobId(str(number)), 10**9)


def test_requests_and_results_have_rates_of_their_own_and_principals_too() -> None:
    meter, bounds = Meter(), Allowance(requests_per_second=1.0, results_per_second=1.0)
    assert not meter.request(ALICE, bounds, 0.0)
    assert "1 requests a second" in meter.request(ALICE, bounds, 0.0)
    assert not meter.result(ALICE, bounds, 0.0)
    assert "results" in meter.result(ALICE, bounds, 0.0)
    assert not meter.request(BOB, bounds, 0.0)


def test_open_jobs_are_counted_until_they_end() -> None:
    meter, bounds = Meter(), Allowance(open_jobs=2)
    assert not meter.submit(ALICE, bounds, JobId("1"), 5)
    assert not meter.submit(ALICE, bounds, JobId("2"), 5)
    assert not meter.submit(ALICE, bounds, JobId("2"), 5), "the same job again is the same job"
    assert "2 jobs of alice" in meter.submit(ALICE, bounds, JobId("3"), 5)
    assert not meter.submit(BOB, bounds, JobId("3"), 5)
    meter.observe(ended("1"))
    assert not meter.submit(ALICE, bounds, JobId("4"), 5)
    meter.observe(ended("unknown"))
    assert meter.open_jobs(ALICE) == 2


def test_a_refused_job_is_not_open_but_a_conflict_leaves_the_first_job_open() -> None:
    meter, bounds = Meter(), Allowance(open_jobs=1)
    meter.submit(ALICE, bounds, JobId("1"), 5)
    meter.observe(ended("1", Kind.REFUSED, FaultCode.CONFLICT))
    assert meter.open_jobs(ALICE) == 1
    meter.observe(ended("1", Kind.REFUSED, FaultCode.QUEUE_FULL))
    assert meter.open_jobs(ALICE) == 0


def test_the_bytes_of_open_jobs_are_bounded() -> None:
    meter, bounds = Meter(), Allowance(open_bytes=100)
    assert not meter.submit(ALICE, bounds, JobId("1"), 60)
    assert "60 bytes of alice" in meter.submit(ALICE, bounds, JobId("2"), 60)
    assert not meter.submit(ALICE, bounds, JobId("3"), 40)
    meter.observe(ended("1"))
    assert not meter.submit(ALICE, bounds, JobId("2"), 60)


def test_connections_are_peers_heard_from_lately() -> None:
    meter, bounds = Meter(), Allowance(connections=1)
    one, two = PeerId("nfp/1"), PeerId("nfp/2")
    assert not meter.connect(ALICE, one, bounds, 0.0)
    assert not meter.connect(ALICE, one, bounds, 1.0)
    assert "1 connections" in meter.connect(ALICE, two, bounds, 1.0)
    assert not meter.connect(BOB, two, bounds, 1.0)
    meter.forget_peer(ALICE, one)
    assert not meter.connect(ALICE, two, bounds, 1.0)
    assert "connections" in meter.connect(ALICE, one, bounds, 1.0 + CONNECTED_FOR)
    assert not meter.connect(ALICE, one, bounds, 1.1 + CONNECTED_FOR)
