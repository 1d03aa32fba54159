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


TASKS = TaskTable("toy", {"plain": Tasks().plain, "asked": Tasks().asked, "free": lambda: "free"})


def test_a_task_gets_its_arguments_and_the_session_if_it_takes_one() -> None:
    assert TASKS(Call("plain", (3,)), session()) == 3
    assert TASKS(Call("asked", (), {"x": 4}), session()) == "nfp/c 4"
    assert TASKS(Call("free"), session()) == "free"


def test_a_name_in_capitals_is_the_same_name() -> None:
    assert TASKS(Call("PLAIN", (3,)), session()) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (Call("fly"), "unknown toy task 'fly'; known are asked, free, plain"),
        (Call("plain", (1, 2, 3)), "plain"),
        (Call("asked", (), {"y": 4}), "asked"),
    ],
)
def test_what_cannot_be_called_is_the_callers_fault(call: Call, words: str) -> None:
    with pytest.raises(ServiceFault, match=words):
        TASKS(call, session())


def test_a_session_streams_reports_gets_input_and_stops() -> None:
    said: list[Any] = []

    async def play() -> Any:
        mine = session(said)
        await mine.stream(b"piece")
        mine.progress(1)
        mine.add_input("input")
        before = mine.is_stopped
        mine.stop()
        assert (before, mine.is_stopped) == (False, True)
        return await mine.input(1.0)

    assert asyncio.run(play()) == "input"
    assert said == [("chunk", b"piece"), ("progress", 1)]


def test_unread_input_is_bounded_and_waiting_for_input_ends() -> None:
    async def play() -> None:
        mine = session()
        for _ in range(MOST_INPUT + 10):
            mine.add_input("more")
        for _ in range(MOST_INPUT):
            await mine.input(1.0)
        with pytest.raises(TimeoutError):
            await mine.input(0.0)

    asyncio.run(play())
