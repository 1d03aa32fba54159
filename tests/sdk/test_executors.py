"""Thread, process and async tasks of one worker, over several dialects."""

import asyncio
import os
import threading
import time
from typing import Any

import pytest
from tests.sdk import misbehaving

from dragoman import Client, JobFailed, Worker
from dragoman.dialects.peer_sides import Chunk, InputAsked, Progress
from dragoman.sdk.blocking import Job
from dragoman.sdk.cancel_outcomes import CANCELLED, UNCONFIRMED
from dragoman.sdk.context import JobContext
from dragoman.testing.harness import LocalBroker

DIALECTS = ["nfp", "http", "ncl", "dcp", "zss", "memo"]
LINKS = {"zss": ("zss", "zss_backend"), "ncl": ("nats",)}


def serve(broker: LocalBroker, dialect: str, **options: Any) -> Worker:
    options.setdefault("own_process_beats", False)
    return Worker(broker.url(dialect, for_workers=True), "iso", name="w1", **options)


def broker_with(dialect: str) -> LocalBroker:
    return LocalBroker(*{"nfp", *LINKS.get(dialect, (dialect,))})


def offer(worker: Worker, *names: str, **options: Any) -> None:
    for name in names:
        worker.task(name=name, **options)(getattr(misbehaving, name))


def until_started(worker: Worker) -> None:
    """Wait until the worker's job runs in a process."""
    while not (worker.running() and worker.task_process_ids()):
        time.sleep(0.01)


def answering(job: Job) -> list[Any]:
    """Answer the job's questions; return its events."""
    events = []
    for event in job.events():
        events.append(event)
        if isinstance(event, InputAsked):
            job.give_input(event.request, f"yes to {event.question}")
    return events


@pytest.mark.process
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_process_task_behaves_and_misbehaves_the_same_in_every_dialect(dialect: str) -> None:
    with broker_with(dialect) as broker, Client(broker.url("nfp")) as client:
        worker = serve(broker, dialect, concurrency=1, isolation="process")
        offer(worker, "add", "pid", "segfault", "exit_at_once", "leave", "unsendable", "fails")
        offer(worker, "fork_and_return", "later")
        offer(worker, "hog", memory_limit="64MB")
        offer(worker, "spin", time_limit=0.3)
        bad = {
            "segfault": ((), "killed by SIGSEGV"),
            "exit_at_once": ((3,), "exit status 3"),
            "leave": ((), r"sys\.exit\(4\)"),
            "unsendable": ((), "cannot be sent"),
            "fails": (("no",), "ValueError: no"),
            "hog": ((1 << 30,), "more than its memory limit"),
            "spin": ((), "longer than its time limit"),
        }
        calls = client.options(timeout=30)
        with worker:
            assert calls.call("iso", "add", 1, 2) == 3
            assert calls.call("iso", "later", 5) == 5
            assert calls.call("iso", "pid") != os.getpid()
            for task, (args, text) in bad.items():
                with pytest.raises(JobFailed, match=text):
                    calls.call("iso", task, *args)
            assert calls.call("iso", "fork_and_return") == "forked"
            assert calls.call("iso", "add", 1, 2) == 3
            assert (worker.succeeded, worker.failed) == (5, len(bad))


@pytest.mark.process
@pytest.mark.parametrize("dialect", ["nfp", "http", "ncl", "dcp", "zss"])
@pytest.mark.parametrize("task", ["hold_the_lock", "spin"])
def test_a_cancelled_process_task_is_stopped_and_that_is_confirmed(dialect: str, task: str) -> None:
    with broker_with(dialect) as broker, Client(broker.url("nfp")) as client:
        worker = serve(broker, dialect, concurrency=1, isolation="process")
        offer(worker, task, "add")
        with worker:
            job = client.submit("iso", task)
            until_started(worker)
            (pid,) = worker.task_process_ids()
            # NCL has no message that confirms a cancel; its process is stopped all the same.
            assert job.cancel() == (UNCONFIRMED if dialect == "ncl" else CANCELLED)
            assert client.options(timeout=30).call("iso", "add", 1) == 1
            assert pid not in worker.task_process_ids()


def test_a_thread_task_that_never_checks_is_cancelled_without_confirmation(
    broker: LocalBroker,
) -> None:
    worker = Worker(broker.url("nfp"), "thready", own_process_beats=False, isolation="thread")
    started, release = threading.Event(), threading.Event()

    @worker.task
    def stuck() -> None:
        started.set()
        release.wait(60)

    with Client(broker.url("nfp")) as client, worker:
        job = client.submit("thready", "stuck")
        assert started.wait(15)
        assert job.cancel() == UNCONFIRMED
        release.set()


@pytest.mark.process
def test_progress_streams_questions_and_prints_of_a_process_reach_the_client() -> None:
    with LocalBroker("nfp") as broker, Client(broker.url("nfp")) as client:
        worker = serve(broker, "nfp", concurrency=1, isolation="process")
        offer(worker, "says")
        with worker:
            job = client.submit("iso", "says")
            events = answering(job)
            assert Progress(job.id, {"step": 1}, "w1") in events
            assert [e.data for e in events if isinstance(e, Chunk)] == [b"piece"]
            assert job.result(30) == "yes to proceed?"


@pytest.mark.process
def test_heartbeats_go_on_while_a_process_task_holds_its_interpreter_lock() -> None:
    quick = {"beat_every": 0.2, "missed_allowed": 100}
    with LocalBroker("nfp", nfp=quick) as broker, Client(broker.url("nfp")) as client:
        worker = serve(broker, "nfp", concurrency=2, isolation="process")
        offer(worker, "hold_the_lock", "add")
        side: Any = worker._side
        beat, beats = side.beat, threading.Semaphore(0)

        def counted() -> Any:
            beats.release()
            return beat()

        side.beat = counted
        with worker:
            stuck = client.submit("iso", "hold_the_lock")
            until_started(worker)
            while beats.acquire(blocking=False):
                pass
            assert all(beats.acquire(timeout=15) for _ in range(3))
            assert client.options(timeout=30).call("iso", "add", 1) == 1
            assert stuck.cancel() == CANCELLED


def test_async_tasks_share_one_loop_that_is_not_the_worker_s(broker: LocalBroker) -> None:
    worker = Worker(broker.url("nfp"), "shared", own_process_beats=False, concurrency=4)
    together = asyncio.Event()
    loops: set[object] = set()

    @worker.task
    async def meet(n: int) -> int:
        loops.add(asyncio.get_running_loop())
        if n == 3:
            together.set()
        await together.wait()
        return n

    with worker, Client(broker.url("nfp")) as client:
        jobs = [client.submit("shared", "meet", n) for n in range(4)]
        assert [job.result(20) for job in jobs] == [0, 1, 2, 3]
        assert len(loops) == 1
        assert worker._inbox.loop not in loops


def test_an_async_task_that_blocks_stops_neither_messages_nor_threads(broker: LocalBroker) -> None:
    worker = Worker(broker.url("nfp"), "blocked", own_process_beats=False)
    release = threading.Event()
    started = threading.Event()

    @worker.task
    async def block() -> str:
        started.set()
        release.wait(30)
        return "released"

    worker.task(lambda: "here", name="where")
    with worker, Client(broker.url("nfp")) as client:
        job = client.submit("blocked", "block")
        assert started.wait(15)
        assert client.options(timeout=20).call("blocked", "where") == "here"
        release.set()
        assert job.result(20) == "released"


def test_an_async_task_fails_exits_streams_asks_and_is_cancelled(broker: LocalBroker) -> None:
    worker = Worker(broker.url("nfp"), "various", own_process_beats=False)
    waits = threading.Event()

    @worker.task
    async def leave() -> None:
        raise SystemExit(4)

    @worker.task
    async def asks(job: JobContext) -> Any:
        with pytest.raises(Exception, match="ask_async"):
            job.ask("blocking?")
        return await job.ask_async("proceed?", timeout=20)

    @worker.task
    async def wait() -> None:
        waits.set()
        await asyncio.Event().wait()

    worker.task(name="slow", time_limit=0.05)(wait)
    worker.task(misbehaving.pieces)
    with worker, Client(broker.url("nfp")) as client:
        calls = client.options(timeout=20)
        with pytest.raises(JobFailed, match=r"sys\.exit\(4\)"):
            calls.call("various", "leave")
        with pytest.raises(JobFailed, match="longer than its time limit"):
            calls.call("various", "slow")
        waits.clear()
        job = client.submit("various", "asks")
        answering(job)
        assert job.result(20) == "yes to proceed?"
        waiting = client.submit("various", "wait")
        assert waits.wait(15)
        assert waiting.cancel() == CANCELLED
        streamed = client.submit("various", "pieces")
        assert [e.data for e in streamed.events() if isinstance(e, Chunk)] == [b"one", b"two"]


def test_a_task_that_cannot_run_where_it_should_is_refused_when_it_is_declared() -> None:
    worker = Worker("nfp://127.0.0.1:9", "s", own_process_beats=False)
    with pytest.raises(ValueError, match="move it to the top level"):
        worker.task(name="t", isolation="process")(lambda: 1)
    with pytest.raises(ValueError, match="a thread cannot be stopped"):
        worker.task(name="t", time_limit=1.0)(misbehaving.add)


class Unimportable:
    """An object that cannot be pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def method(self) -> None: ...


def test_a_task_that_no_child_can_import_keeps_the_worker_from_starting() -> None:
    worker = Worker("nfp://127.0.0.1:9", "s", own_process_beats=False, isolation="process")
    worker.task(name="t")(Unimportable().method)
    with pytest.raises(ValueError, match="task t: a child process cannot import"):
        worker.start(0.1)
