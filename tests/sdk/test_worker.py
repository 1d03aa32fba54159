"""The worker against a real broker: concurrency, drain, hand-back, forward, events."""

import sys
import threading
from pathlib import Path

import pytest

from dragoman import Client, JobFailed, Worker
from dragoman.sdk.context import JobContext
from dragoman.sdk.errors import Expired, Unreachable
from dragoman.testing.harness import LocalBroker


def make(broker: LocalBroker, service: str, dialect: str = "nfp", **options: object) -> Worker:
    options.setdefault("own_process_beats", False)
    return Worker(broker.url(dialect, for_workers=True), service, **options)  # type: ignore[arg-type]


def test_jobs_run_side_by_side_up_to_the_concurrency(broker: LocalBroker) -> None:
    worker = make(broker, "side", concurrency=3)
    meeting = threading.Barrier(3, timeout=15)

    @worker.task
    def meet() -> int:
        return meeting.wait() * 0 + 1

    with worker, Client(broker.url("nfp")) as client:
        jobs = [client.submit("side", "meet") for _ in range(3)]
        assert [job.result(20) for job in jobs] == [1, 1, 1]
    assert worker.succeeded == 3


@pytest.mark.process
@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "memo", "ncl", "http"])
def test_a_started_worker_is_registered_in_every_dialect(dialect: str) -> None:
    links = {"nfp", *{"zss": ("zss", "zss_backend"), "ncl": ("nats",)}.get(dialect, (dialect,))}
    with LocalBroker(*links) as broker, Client(broker.url("nfp")) as client:
        worker = Worker(broker.url(dialect, for_workers=True), "fresh")
        worker.task(lambda: "here", name="where")
        with worker:
            services = client.call("mmi.service.broker", "show_services", timeout=20)
            assert "fresh" in str(services).lower()
            worker.wait_ready(timeout=0.0)
            assert client.call("fresh", "where", timeout=20) == "here"


AWKWARD = [float("nan"), "\ud800", {(1, 2): 3}, object()]


@pytest.mark.process
@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "memo", "ncl", "http"])
def test_whatever_a_task_returns_ends_its_job_at_once_and_the_worker_serves_on(
    dialect: str,
) -> None:
    links = {"nfp", *{"zss": ("zss", "zss_backend"), "ncl": ("nats",)}.get(dialect, (dialect,))}
    with LocalBroker(*links) as broker, Client(broker.url("nfp")) as client:
        worker = make(broker, "awkward", dialect, concurrency=1)
        worker.task(lambda n: AWKWARD[n], name="value")
        worker.task(sys.exit, name="leave")
        with worker:
            for n in range(len(AWKWARD)):
                try:
                    client.call("awkward", "value", n, timeout=20)
                except Expired:
                    raise
                except JobFailed:
                    continue
            with pytest.raises(JobFailed, match=r"task_failed.*sys\.exit"):
                client.call("awkward", "leave", timeout=20)
            assert client.call("awkward", "mmi.show_workers", timeout=20)[0]["running"] == 0


def test_a_draining_worker_hands_a_stuck_job_back_after_its_limit(broker: LocalBroker) -> None:
    stuck = make(broker, "stuck-drain", drain=0.2)
    started, release = threading.Event(), threading.Event()

    @stuck.task
    def work() -> None:
        started.set()
        release.wait(60)

    with Client(broker.url("nfp")) as client:
        stuck.start()
        client.submit("stuck-drain", "work")
        assert started.wait(15)
        assert stuck.longest_running() > 0
        stuck.go_down()
        stuck._thread.join(15)
        assert not stuck._thread.is_alive
    release.set()


def test_a_worker_without_a_broker_does_not_start() -> None:
    worker = Worker("nfp://127.0.0.1:9", "alone", own_process_beats=False)
    with pytest.raises(
        Unreachable, match=r"did not register worker alone.* within 0.3 s; is `drag"
    ):
        worker.start(timeout=0.3)
    assert not worker._thread.is_alive


def test_a_draining_worker_finishes_what_runs_and_hands_new_work_to_others(
    broker: LocalBroker,
) -> None:
    first, second = make(broker, "drain", name="d1"), make(broker, "drain", name="d2")
    started, release = threading.Event(), threading.Event()

    @first.task
    def work() -> str:
        started.set()
        release.wait(15)
        return "first"

    second.task(lambda: "second", name="work")
    with Client(broker.url("nfp")) as client:
        first.start()
        running = client.submit("drain", "work")
        assert started.wait(15)
        stopping = threading.Thread(target=first.stop)
        stopping.start()
        with second:
            assert client.call("drain", "work", timeout=20, target="any") == "second"
            release.set()
            assert running.result(15) == "first"
            stopping.join(15)
            assert not stopping.is_alive()


def test_a_worker_that_is_stopped_twice_hands_back_its_running_jobs(broker: LocalBroker) -> None:
    stuck, other = make(broker, "stuck", name="s1"), make(broker, "stuck", name="s2")
    started, release = threading.Event(), threading.Event()

    @stuck.task
    def work() -> str:
        started.set()
        release.wait(30)
        return "stuck"

    other.task(lambda: "other", name="work")
    with Client(broker.url("nfp")) as client:
        stuck.start()
        job = client.submit("stuck", "work")
        assert started.wait(15)
        stuck.stop(timeout=0.1)
        with other:
            assert job.result(20) == "other"
    release.set()


def test_a_job_can_be_forwarded_to_another_service(broker: LocalBroker) -> None:
    front, back = make(broker, "front", "dcp"), make(broker, "back", "dcp")

    @front.task
    def ask(job: JobContext, n: int) -> None:
        job.forward("back", "double", n=n)

    back.task(lambda n: 2 * n, name="double")
    with front, back, Client(broker.url("nfp")) as client:
        assert client.call("front", "ask", n=21, timeout=20) == 42


def test_a_dialect_that_cannot_forward_fails_the_job_with_a_reason(broker: LocalBroker) -> None:
    front = make(broker, "front-nfp")

    @front.task
    def ask(job: JobContext) -> None:
        job.forward("back", "double")

    with front, Client(broker.url("nfp")) as client, pytest.raises(JobFailed, match="forward"):
        client.call("front-nfp", "ask", timeout=20)


def test_published_events_reach_subscribers(broker: LocalBroker) -> None:
    worker = make(broker, "crier")
    with worker, Client(broker.url("nfp")) as client:
        feed = client.subscribe("news.*", after=0)
        worker.publish("news.local", {"n": 1})
        event = next(feed)
        assert (event.topic, event.event) == ("news.local", {"n": 1})


def test_a_worker_has_one_service_where_its_dialect_says_so(broker: LocalBroker) -> None:
    with pytest.raises(ValueError, match="one service"):
        Worker(broker.url("nfp"), "a", "b")


@pytest.mark.process
def test_a_worker_without_a_broker_starts_no_process_for_each_attempt(
    tmp_path: Path,
) -> None:
    first = LocalBroker("nfp", data=tmp_path)
    with first:
        url = first.url("nfp")
        worker = Worker(url, "lasting", name="l1")
        worker.task(lambda: "here", name="where")
        worker.start()
        with Client(url) as client:
            assert client.call("lasting", "where", timeout=20) == "here"
        pid = worker._membership.transport.pid
    worker.join_again()
    worker.join_again()
    listen = {"nfp": url.replace("nfp://", "tcp://")}
    with LocalBroker("nfp", data=tmp_path, listen=listen), Client(url) as client:
        assert client.call("lasting", "where", timeout=30) == "here"
        assert worker._membership.transport.pid == pid
        worker.stop()
