"""Middleware of workers and clients."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Client, JobContext, JobFailed, Middleware, Worker
from dragoman.dialects.peer_sides import Finished, Submission
from dragoman.model.content import Answer, Call
from dragoman.sdk.task_results import ForwardRequested
from dragoman.sdk.tasks import Tasks, make_task, perform_async
from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http") as broker:
        yield broker


class Noted(Middleware):
    """Notes what it sees; doubles the only argument."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def before_job(self, job: Any, call: Call) -> Call | None:
        self.seen.append(f"{self.name} before {call.args}")
        if call.args == (13,):
            raise ValueError("unlucky")
        return Call(call.task, tuple(2 * each for each in call.args))

    def after_job(self, job: Any, call: Call, answer: Answer) -> None:
        self.seen.append(f"{self.name} after {call.args}: {answer.value}")
        if self.name == "rude":
            raise RuntimeError("a hook must not change the outcome")

    def on_failure(self, job: Any, call: Call, error: BaseException) -> None:
        self.seen.append(f"{self.name} failed {call.args}: {error}")


class Context:
    id = "j1"

    def __init__(self, *middleware: Middleware) -> None:
        self.middleware = middleware


def half(x: int) -> float:
    if x == 20:
        raise KeyError("twenty")
    return x / 2


async def half_async(x: int) -> float:
    return half(x)


def forward(x: int) -> None:
    raise ForwardRequested("other", Call())


def run(x: int, *middleware: Middleware, function: Any = half) -> Answer:
    tasks = Tasks()
    tasks.add(make_task(function, "half"))
    return tasks.run(Call("half", (x,)), Context(*middleware))


def test_hooks_run_around_the_task_and_may_change_its_call() -> None:
    seen: list[str] = []
    assert run(3, Noted("a", seen), Noted("b", seen)).value == 6.0
    assert seen == ["a before (3,)", "b before (6,)", "b after (12,): 6.0", "a after (12,): 6.0"]


def test_hooks_learn_what_a_task_raised() -> None:
    seen: list[str] = []
    fault = run(10, Noted("a", seen)).fault
    assert fault is not None
    assert "KeyError" in fault.message
    assert seen[-1] == "a failed (20,): 'twenty'"


def test_a_hook_before_can_fail_the_job_and_one_after_cannot() -> None:
    seen: list[str] = []
    fault = run(13, Noted("a", seen)).fault
    assert fault is not None
    assert fault.message.startswith("ValueError: unlucky")
    assert seen == ["a before (13,)", "a failed (13,): unlucky"]
    assert run(3, Noted("rude", seen)).value == 3.0


def test_a_forward_is_no_failure() -> None:
    seen: list[str] = []
    with pytest.raises(ForwardRequested):
        run(3, Noted("a", seen), function=forward)
    assert seen == ["a before (3,)"]


def test_hooks_run_around_a_coroutine() -> None:
    seen: list[str] = []
    task = make_task(half_async, "half")
    context = Context(Noted("a", seen))
    answer = asyncio.run(perform_async(task, Call("half", (3,)), context))
    assert answer.value == 3.0
    with pytest.raises(KeyError):
        asyncio.run(perform_async(task, Call("half", (10,)), context))
    assert seen[1::2] == ["a after (6,): 3.0", "a failed (20,): 'twenty'"]


class InFile(Middleware):
    """Writes a line for each job: also from a task process."""

    def __init__(self, path: str) -> None:
        self.path = path

    def after_job(self, job: JobContext, call: Call, answer: Answer) -> None:
        with Path(self.path).open("a") as file:
            file.write(f"{job.service} {call.task} {answer.value}\n")


def double(x: int) -> int:
    return 2 * x


@pytest.mark.process
def test_hooks_run_in_a_task_process(broker: LocalBroker, tmp_path: Path) -> None:
    path = tmp_path / "log"
    worker = Worker(
        broker.url("nfp"),
        "halves",
        isolation="process",
        own_process_beats=False,
        middleware=[InFile(str(path))],
    )
    worker.task(double)
    with worker, Client(broker.url("nfp")) as client:
        assert client.options(timeout=30).call("halves", "double", 4) == 8
    assert path.read_text() == "halves double 8\n"


class Outgoing(Middleware):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_submit(self, submission: Submission) -> Submission | None:
        if submission.call.task == "forbidden":
            raise PermissionError("not from here")
        return replace(submission, call=replace(submission.call, kwargs={"x": 5}))

    def after_result(self, submission: Submission, finished: Finished) -> None:
        self.seen.append(f"{submission.call.task} {finished.answers[0].value}")

    def on_failed_job(self, submission: Submission, finished: Finished) -> None:
        self.seen.append(f"{submission.call.task} failed")


@pytest.mark.parametrize("dialect", ["nfp", "http"])
def test_hooks_of_a_client_see_each_submission_and_its_end(
    broker: LocalBroker, dialect: str
) -> None:
    worker, outgoing = Worker(broker.url("nfp"), "out", own_process_beats=False), Outgoing()
    worker.task(double)
    with worker, Client(broker.url(dialect), middleware=[outgoing]) as client:
        assert client.options(timeout=30).call("out", "double", x=1) == 10
        with pytest.raises(JobFailed):
            client.options(timeout=30).call("out", "unknown", x=1)
        with pytest.raises(PermissionError, match="not from here"):
            client.options(timeout=30).submit("out", "forbidden")
    assert outgoing.seen == ["double 10", "unknown failed"]


def test_an_async_client_has_them_too(broker: LocalBroker) -> None:
    outgoing = Outgoing()
    worker = Worker(broker.url("nfp"), "out2", own_process_beats=False)
    worker.task(double)

    async def call() -> Any:
        async with AsyncClient(broker.url("nfp"), middleware=[outgoing]) as client:
            return await client.options(timeout=30).call("out2", "double", x=2)

    with worker:
        assert asyncio.run(call()) == 10
