"""Worker management: the question is passed on to those it is for."""

import asyncio
from typing import Any

import pytest

from dragoman.model.content import Call
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.workers import TASKS, AgentWorker, WorkerManagement

ASKED: list[tuple[str, str, dict[str, Any]]] = []


async def ask(worker: AgentWorker, task: str, kwargs: dict[str, Any]) -> str:
    ASKED.append((worker.name, task, kwargs))
    return f"{worker.name} of {worker.service}"


SERVICE = WorkerManagement(lambda: [AgentWorker("w1", "a"), AgentWorker("w2", "b")], ask)


def call(task: str, **kwargs: Any) -> Any:
    async def play() -> Any:
        session = ServiceSession("j", "c", lambda kind, said: None)
        return await SERVICE.tasks(Call(task, (), kwargs), session)

    return asyncio.run(play())


@pytest.mark.parametrize("task", TASKS)
def test_every_task_reaches_everybody_or_those_named(task: str) -> None:
    ASKED.clear()
    assert call(task) == {"w1": "w1 of a", "w2": "w2 of b"}
    assert call(task, worker="w2", x=1) == {"w2": "w2 of b"}
    assert call(task, worker=["w1"]) == {"w1": "w1 of a"}
    assert ASKED[2] == ("w2", task, {"x": 1})


def test_a_worker_without_the_sdk_is_named() -> None:
    with pytest.raises(ServiceFault, match="stranger"):
        call("restart", worker=["w1", "stranger"])
