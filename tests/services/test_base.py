"""What a built-in service is: tasks by name, and a session while a call runs."""

import asyncio
from typing import Any

import pytest

from dragoman.model.content import Call
from dragoman.services.base import MOST_INPUT, ServiceFault, ServiceSession, TaskTable


def session(said: list[Any] | None = None) -> ServiceSession:
    heard = said if said is not None else []
    return ServiceSession("j", "nfp/c", lambda kind, what: heard.append((kind, what)))


class Tasks:
    def plain(self, x: int = 0) -> int:
        return x

    def asked(self, session: ServiceSession, x: int) -> str:
        return f"{session.client} {x}"


DESK = TaskTable("toy", {"plain": Tasks().plain, "asked": Tasks().asked, "free": lambda: "free"})


def test_a_task_gets_its_arguments_and_the_session_if_it_wants_it() -> None:
    assert DESK(Call("plain", (3,)), session()) == 3
    assert DESK(Call("asked", (), {"x": 4}), session()) == "nfp/c 4"
    assert DESK(Call("free"), session()) == "free"


def test_a_shouted_name_is_the_same_name() -> None:
    assert DESK(Call("PLAIN", (3,)), session()) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("fly"), "unknown toy task 'fly'; there are asked, free, plain"),
        (Call("plain", (1, 2, 3)), "plain"),
        (Call("asked", (), {"y": 4}), "asked"),
    ],
)
def test_what_cannot_be_called_is_the_callers_fault(call: Call, words: str) -> None:
    with pytest.raises(ServiceFault, match=words):
        DESK(call, session())


def test_a_session_streams_reports_hears_and_is_stopped() -> None:
    said: list[Any] = []

    async def play() -> Any:
        mine = session(said)
        await mine.stream(b"piece")
        mine.progress(1)
        mine.give("input")
        before = mine.is_stopped
        mine.stop()
        assert (before, mine.is_stopped) == (False, True)
        return await mine.input(1.0)

    assert asyncio.run(play()) == "input"
    assert said == [("chunk", b"piece"), ("progress", 1)]


def test_input_that_nobody_reads_is_bounded_and_waiting_for_it_ends() -> None:
    async def play() -> None:
        mine = session()
        for _ in range(MOST_INPUT + 10):
            mine.give("more")
        for _ in range(MOST_INPUT):
            await mine.input(1.0)
        with pytest.raises(TimeoutError):
            await mine.input(0.0)

    asyncio.run(play())
