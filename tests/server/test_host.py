"""Built-in services are workers: dispatched, recorded and answered like any other."""

import asyncio
from typing import Any

from tests.server.stage import DRESS, Stage, call_body, settle

from dragoman.core.events import JobSubmitted
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Call
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.server.host import Host, ServiceFault


def ended(ledger: MemoryLedger) -> list[Any]:
    return [r for r in ledger.read() if r.kind == "ended"]


def run_call(handler: Any, task: str = "double", *args: Any) -> tuple[Any, Any]:
    """Run one call through a hosted service; return its last record and its answer."""
    stage = Stage()

    async def play(stage: Stage) -> None:
        Host(stage.hub).offer("house", ("mmi",), handler, credit=1)
        body = call_body(task, *args)
        stage.loop.submit(JobSubmitted(JobId("j"), PeerId("x/c"), ServiceName("mmi"), body))
        await settle(lambda: ended(stage.ledger))

    stage.run(play)
    record = ended(stage.ledger)[0]
    body = stage.ledger.body(record.seq)
    assert body is not None
    return record, DRESS.read_answer(body)


def test_a_quick_service_answers_at_once() -> None:
    record, answer = run_call(lambda call: call.args[0] * 2, "double", 21)
    assert answer.value == 42
    assert (record.state, record.worker, record.dialect) == ("succeeded", "house", "local")


def test_a_slow_service_answers_later() -> None:
    async def handler(call: Call) -> str:
        await asyncio.sleep(0)
        return call.task

    assert run_call(handler)[1].value == "double"


def test_a_fault_of_the_caller_is_told_in_its_own_words() -> None:
    def handler(call: Call) -> object:
        raise ServiceFault("no such device")

    record, answer = run_call(handler)
    assert (record.state, record.fault) == ("failed", "task_failed")
    assert answer.fault is not None
    assert answer.fault.message == "no such device"


def test_an_exception_and_an_unspeakable_answer_are_faults_too() -> None:
    async def handler(call: Call) -> object:
        raise KeyError("x")

    assert "KeyError" in run_call(handler)[1].fault.message
    assert run_call(lambda call: object())[1].fault is not None
