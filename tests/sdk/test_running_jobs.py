"""The running jobs of a worker, with an NFP side and a list as its loop."""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from dragoman.dialects.base import Frames
from dragoman.dialects.memo01.worker_side import MemoWorkerSide
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import Assigned, InputGiven, Stop, WorkerSide
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId
from dragoman.sdk.context import JobContext
from dragoman.sdk.running_jobs import RunningJobs
from dragoman.sdk.task_results import NotInDialect


class Scene:
    """A worker's jobs; `turn` runs what threads handed to its loop."""

    def __init__(self, side: WorkerSide | None = None, log_lines: bool = False) -> None:
        self.sent: list[Frames] = []
        self.queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.ended = 0
        self.timers: list[Callable[[], None]] = []
        #: What a call does and returns.
        self.task: Callable[[JobContext], Answer] = lambda job: Answer(job.id)
        self.side: Any = side or NfpWorkerSide("w1", "svc")
        self.running = RunningJobs(
            "w1",
            self.side,
            send=self.sent.extend,
            run=lambda work, context: self.task(context),
            in_loop=self.queue.put,
            later=lambda seconds, work: self.timers.append(work),
            ended=self._count_end,
            children=lambda job: None,
            store=lambda ticket, answer: False,
            log_lines=log_lines,
        )

    def _count_end(self) -> None:
        self.ended += 1

    def take(self, job: str = "j1", client: str = "c1") -> Callable[[], None]:
        post = wire.NfpTask(wire.POST, client.encode(), job.encode(), b'{"task":"t"}')
        (work,) = self.side.receive(wire.encode(post))
        assert isinstance(work, Assigned)
        return self.execution(work)

    def execution(self, work: Assigned) -> Callable[[], None]:
        """Take a job; return the function that a thread runs."""
        return partial(self.running.execute, work, self.running.take(work))

    def run_in_a_thread(self, execute: Callable[[], None]) -> None:
        """Run a job in a thread and the loop's queue beside it, until both have ended."""
        thread = threading.Thread(target=execute)
        thread.start()
        while thread.is_alive() or not self.queue.empty():
            with suppress(queue.Empty):
                self.queue.get(timeout=0.01)()

    def turn(self) -> None:
        """Run the loop's queue; forget what was sent before."""
        self.sent.clear()
        while not self.queue.empty():
            self.queue.get()()

    def reports_sent(self) -> list[tuple[str, bytes]]:
        """Return command and status of every report that was sent."""
        reports = [wire.decode(list(frames)) for frames in self.sent]
        return [(r.command, r.status) for r in reports if isinstance(r, wire.NfpReport)]


TAKEN = ("RESPONSE", b"201")
#: A result, and the event that announces it.
ANSWERED = [("RESPONSE", b"200"), ("EVENT", b"200")]
CANCELLED = ("RESPONSE", b"417")
HANDED_BACK = ("RESPONSE", b"404")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_job_is_confirmed_when_it_is_taken_and_answered_when_it_was_run(scene: Scene) -> None:
    execute = scene.take()
    assert (scene.reports_sent(), scene.running.clients()) == ([TAKEN], ["c1"])
    execute()
    assert (scene.reports_sent(), len(scene.running), scene.ended) == ([TAKEN], 1, 0)
    scene.turn()
    assert (scene.reports_sent(), len(scene.running), scene.ended) == (ANSWERED, 0, 1)
    assert (scene.running.succeeded, scene.running.failed) == (1, 0)


def test_failures_are_counted_apart_and_questions_to_the_worker_not_at_all(scene: Scene) -> None:
    def fail(job: JobContext) -> Answer:
        return Answer(fault=Fault(FaultCode.TASK_FAILED, "no"))

    def manage(job: JobContext) -> Answer:
        job.is_management = True
        assert scene.running.clients() == []
        return Answer("fine")

    for task in (fail, manage):
        scene.task = task
        scene.take(task.__name__)()
        scene.turn()
    assert (scene.running.succeeded, scene.running.failed, scene.ended) == (0, 1, 2)


def test_what_a_stopped_task_returns_is_not_its_answer(scene: Scene) -> None:
    def stopped(job: JobContext) -> Answer:
        scene.running.stop(Stop("j1"))
        scene.running.stop(Stop("unknown"))
        return Answer(1)

    scene.task = stopped
    scene.take()()
    scene.turn()
    assert scene.reports_sent() == [CANCELLED]
    assert (scene.running.succeeded, scene.running.failed) == (0, 1)


def test_input_reaches_the_job_it_is_for(scene: Scene) -> None:
    got: list[Any] = []

    def listen(job: JobContext) -> Answer:
        got.append((job.id, job.inbox.get(timeout=0)))
        return Answer()

    scene.task = listen
    first, second = scene.take("j1"), scene.take("j2")
    scene.running.give(InputGiven("j2", "", 2))
    scene.running.give(InputGiven("j1", "", 1))
    scene.running.give(InputGiven("j3", "", 3))
    first()
    second()
    assert got == [("j1", 1), ("j2", 2)]


def test_what_a_task_says_leaves_in_the_loop_and_before_its_answer(scene: Scene) -> None:
    def report(job: JobContext) -> Answer:
        job.progress({"step": 1})
        return Answer()

    scene.task = report
    scene.run_in_a_thread(scene.take())
    assert scene.reports_sent() == [TAKEN, ("EVENT", b"200"), *ANSWERED]


def test_a_task_that_goes_on_after_its_job_was_handed_back_is_not_heard(scene: Scene) -> None:
    def report(job: JobContext) -> Answer:
        job.progress({"step": 1})
        return Answer()

    scene.task = report
    execute = scene.take()
    scene.running.hand_back_all()
    assert (scene.reports_sent(), len(scene.running)) == ([TAKEN, HANDED_BACK], 0)
    scene.sent.clear()
    scene.run_in_a_thread(execute)
    assert (scene.reports_sent(), scene.ended) == ([], 0)
    assert (scene.running.succeeded, scene.running.failed) == (0, 0)


def test_a_forward_that_the_dialect_lacks_is_a_fault_for_the_caller(scene: Scene) -> None:
    def pass_on(job: JobContext) -> Answer:
        job.forward("other", "t")
        raise AssertionError("not reached")

    scene.task = pass_on
    scene.take()()
    scene.turn()
    assert (scene.reports_sent(), len(scene.running), scene.ended) == (ANSWERED, 0, 1)
    assert b"nfp cannot forward" in b"".join(scene.sent[0])


def test_a_job_that_is_cancelled_while_it_waits_for_a_thread_does_not_run(scene: Scene) -> None:
    execute = scene.take()
    scene.task = lambda job: pytest.fail("it ran")
    scene.running.stop(Stop("j1"))
    # It ends at once: no thread has to become free first.
    assert (scene.reports_sent(), scene.ended) == ([TAKEN, CANCELLED], 1)
    execute()
    assert scene.queue.empty()


def test_a_drain_hands_back_only_what_waits_for_a_thread(scene: Scene) -> None:
    def drain(job: JobContext) -> Answer:
        scene.running.hand_back_waiting()
        return Answer(1)

    waits, runs = scene.take("waits"), scene.take("runs")
    scene.task = drain
    runs()
    assert scene.reports_sent()[-1] == HANDED_BACK
    assert len(scene.running) == 1
    scene.task = lambda job: pytest.fail("it ran")
    waits()
    scene.turn()
    assert scene.reports_sent() == ANSWERED
    assert len(scene.running) == 0


def test_what_the_dialect_cannot_say_is_an_error_in_the_task_at_once() -> None:
    scene = Scene(MemoWorkerSide(("svc",)))
    refused: list[str] = []

    def report(job: JobContext) -> Answer:
        for say in (lambda: job.progress(1), lambda: job.stream(b"x"), lambda: job.ask("sure?")):
            with pytest.raises(NotInDialect) as error:
                say()
            refused.append(str(error.value))
        return Answer("done")

    scene.task = report
    scene.run_in_a_thread(scene.execution(Assigned("0.1", JobId("j1"), Call("t"))))
    assert [text.partition(";")[0] for text in refused] == [
        "memo has no progress reports",
        "memo has no streams",
        "memo has no questions to the client",
    ]


def test_a_result_that_the_dialect_cannot_carry_ends_the_job_as_a_fault(scene: Scene) -> None:
    finish = scene.side.finish
    broken = iter([RecursionError("too deep")])

    def fails_once(ticket: str, answer: Answer) -> list[Frames]:
        for error in broken:
            raise error
        frames: list[Frames] = finish(ticket, answer)
        return frames

    scene.side.finish = fails_once
    scene.take()()
    scene.turn()
    assert (len(scene.running), scene.ended) == (0, 1)
    assert b"the result cannot be sent: too deep" in b"".join(scene.sent[0])


def of_our_broker() -> NfpWorkerSide:
    side = NfpWorkerSide("w1", "svc")
    side.receive(wire.encode(wire.Open(wire.BROKER, b'{"agent":"dragoman"}')))
    return side


def test_a_short_job_is_confirmed_by_its_result_and_a_longer_one_while_it_runs() -> None:
    scene = Scene(of_our_broker())
    scene.take("short")()
    scene.turn()
    assert scene.reports_sent() == [("RESPONSE", b"200")]

    def long(job: JobContext) -> Answer:
        scene.timers.pop()()
        return Answer(1)

    scene.sent.clear()
    scene.task = long
    scene.take("long")()
    assert scene.reports_sent() == [TAKEN]
    scene.turn()
    assert scene.reports_sent() == [("RESPONSE", b"200")]


def test_a_job_that_waits_too_long_for_a_thread_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(of_our_broker())
    execute = scene.take("waits")
    scene.timers.pop()()
    assert (scene.reports_sent(), len(scene.running)) == ([], 1)
    monkeypatch.setattr("dragoman.sdk.running_jobs.GIVE_BACK_AFTER", 0.0)
    scene.timers.pop()()
    assert (scene.reports_sent(), len(scene.running)) == ([HANDED_BACK], 0)
    scene.task = lambda job: pytest.fail("it ran")
    execute()


def test_a_broker_that_would_fail_the_job_does_not_get_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    monkeypatch.setattr("dragoman.sdk.running_jobs.GIVE_BACK_AFTER", 0.0)
    scene.take()
    scene.timers.pop()()
    assert (scene.reports_sent(), len(scene.running)) == ([TAKEN], 1)


def run_on_a_loop(scene: Scene, run: Callable[[JobContext], Awaitable[Answer]]) -> None:
    """Run a job as the event loop of async tasks does."""
    work = Assigned("j1", JobId("j1"), Call("t"))
    context = scene.running.take(work)
    asyncio.run(scene.running.execute_async(work, context, lambda: run(context)))
    scene.turn()


def test_a_coroutine_s_answer_is_the_job_s(scene: Scene) -> None:
    scene.take()

    async def answer(job: JobContext) -> Answer:
        assert job.is_on_event_loop
        return Answer(1)

    run_on_a_loop(scene, answer)
    assert scene.reports_sent() == ANSWERED


def test_a_cancel_cancels_the_coroutine(scene: Scene) -> None:
    scene.take()

    async def wait(job: JobContext) -> Answer:
        scene.running.stop(Stop("j1"))
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    run_on_a_loop(scene, wait)
    assert scene.reports_sent() == [CANCELLED]


def test_a_handed_back_job_is_told_to_stop(scene: Scene) -> None:
    stopped: list[bool] = []

    def work(job: JobContext) -> Answer:
        scene.running.hand_back_all()
        stopped.append(job.is_cancelled)
        return Answer()

    scene.task = work
    scene.take()()
    assert stopped == [True]


def test_what_a_task_prints_is_reported_before_its_answer() -> None:
    scene = Scene(log_lines=True)

    def talk(job: JobContext) -> Answer:
        print("half way")
        return Answer(job.id)

    scene.task = talk
    execute = scene.take()
    scene.sent.clear()
    scene.run_in_a_thread(execute)
    assert b"half way" in b"".join(scene.sent[0])
    assert scene.reports_sent()[-2:] == ANSWERED
    assert len(scene.sent) == 3
