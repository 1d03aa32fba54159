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


def call(task: str, service: WorkerManagement = SERVICE, **kwargs: Any) -> Any:
    async def play() -> Any:
        session = ServiceSession("j", "c", lambda kind, said: None)
        return await service.tasks(Call(task, (), kwargs), session)

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


def test_workers_that_cannot_answer_are_named_and_not_an_empty_success() -> None:
    norfab = AgentWorker("norfab", "a", can_answer=False)
    none = WorkerManagement(list, ask)
    only = WorkerManagement(lambda: [norfab], ask)
    mixed = WorkerManagement(lambda: [AgentWorker("w1", "a"), norfab], ask)
    with pytest.raises(ServiceFault, match="no worker is registered"):
        call("show_workers", none)
    with pytest.raises(ServiceFault, match="norfab: not a worker of Dragoman's SDK"):
        call("show_workers", only)
    with pytest.raises(ServiceFault, match="norfab"):
        call("show_workers", mixed, worker=["w1", "norfab"])
    found = call("show_workers", mixed)
    assert found["w1"] == "w1 of a"
    assert "call its own tasks" in found["norfab"]["error"]
