"""The context of a running job."""

import threading
from typing import Any

import pytest

from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Call
from dragoman.model.names import JobId
from dragoman.sdk.context import JobContext
from dragoman.sdk.tasks import ForwardRequested, TaskFailed


@pytest.fixture
def sent() -> list[tuple[Any, ...]]:
    return []


@pytest.fixture
def context(sent: list[tuple[Any, ...]]) -> JobContext:
    work = Assigned("t", JobId("j"), Call("x", headers={"h": "1"}), "svc", "cli", 5.0)
    return JobContext(work, lambda *message: sent.append(message), lambda: "r1")


def test_it_knows_its_job(context: JobContext) -> None:
    assert (context.id, context.service, context.client, context.timeout) == ("j", "svc", "cli", 5)
    assert context.headers == {"h": "1"}


def test_progress_and_chunks_are_sent_with_the_ticket(
    context: JobContext, sent: list[tuple[Any, ...]]
) -> None:
    context.progress({"n": 1})
    context.stream(b"x")
    assert sent == [("progress", "t", {"n": 1}), ("chunk", "t", b"x")]


def test_a_question_waits_for_its_answer(context: JobContext, sent: list[tuple[Any, ...]]) -> None:
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(context.ask("sure?", timeout=10)))
    asking.start()
    while ("ask_input", "t", "r1", "sure?") not in sent:
        pass
    context.give("r1", True)
    asking.join(10)
    assert answers == [True]


def test_a_question_without_an_answer_fails_with_a_message(context: JobContext) -> None:
    with pytest.raises(TaskFailed, match="did not answer"):
        context.ask("sure?", timeout=0.01)


def test_input_without_a_question_goes_to_the_inbox(context: JobContext) -> None:
    context.give("", 42)
    assert context.inbox.get(timeout=1) == 42


def test_a_cancel_is_noticed(context: JobContext) -> None:
    assert not context.is_cancelled
    context.stop()
    assert context.is_cancelled


def test_forward_does_not_return(context: JobContext) -> None:
    with pytest.raises(ForwardRequested) as leaving:
        context.forward("next", "task", 1, a=2)
    assert leaving.value.service == "next"
    assert leaving.value.call == Call("task", (1,), {"a": 2})


def test_a_coroutine_is_run_to_its_end(context: JobContext) -> None:
    async def work() -> int:
        return 3

    assert context.wait_for(work()) == 3
