"""Built-in services are workers: dispatched, recorded and answered like any other."""

import asyncio
from typing import Any

from tests.server.memory_server import CODEC, MemoryServer, call_body, settle

from dragoman.core.effects import SendReply
from dragoman.core.events import Event, InputReceived, JobCancelled, JobSubmitted, ReplyKind
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.content import Answer, Call
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.server.service_runner import ServiceRunner
from dragoman.services.base import BuiltinService, ServiceFault, ServiceSession


def ended(ledger: MemoryLedger) -> list[Any]:
    return [r for r in ledger.read() if r.kind == "ended"]


def run_call(handler: Any, task: str = "double", *args: Any) -> tuple[Any, Any]:
    """Run one call through a hosted service; return its last record and its answer."""
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        ServiceRunner(server.hub).offer(BuiltinService("builtin", ("mmi",), handler, 1))
        body = call_body(task, *args)
        server.loop.submit(JobSubmitted(JobId("j"), PeerId("x/c"), ServiceName("mmi"), body))
        await settle(lambda: ended(server.ledger))

    server.run(scenario)
    record = ended(server.ledger)[0]
    body = server.ledger.body(record.seq)
    assert body is not None
    return record, CODEC.read_answer(body)


def test_a_quick_service_answers_at_once() -> None:
    record, answer = run_call(lambda call, session: call.args[0] * 2, "double", 21)
    assert answer.value == 42
    assert (record.state, record.worker, record.dialect) == ("succeeded", "builtin", "local")


def test_a_slow_service_answers_later() -> None:
    async def handler(call: Call, session: ServiceSession) -> str:
        await asyncio.sleep(0)
        return call.task

    assert run_call(handler)[1].value == "double"


def test_a_fault_of_the_caller_keeps_its_message() -> None:
    def handler(call: Call, session: ServiceSession) -> object:
        raise ServiceFault("no such device")

    record, answer = run_call(handler)
    assert (record.state, record.fault) == ("failed", "task_failed")
    assert answer.fault is not None
    assert answer.fault.message == "no such device"


def test_an_exception_and_an_unmappable_answer_are_faults() -> None:
    async def handler(call: Call, session: ServiceSession) -> object:
        raise KeyError("x")

    assert "KeyError" in run_call(handler)[1].fault.message
    assert run_call(lambda call, session: object())[1].fault is not None


def run_talk(handler: Any, *said: Event) -> tuple[MemoryServer, list[Any]]:
    """Run one call, tell it some more, and return what its client was sent."""
    server = MemoryServer()
    replies: list[Any] = []

    async def scenario(server: MemoryServer) -> None:
        ServiceRunner(server.hub).offer(BuiltinService("builtin", ("mmi",), handler, 1))
        render = server.links.render
        server.links.render = lambda e, now: replies.append(e) or render(e, now)  # type: ignore
        job = JobSubmitted(JobId("j"), PeerId("x/c"), ServiceName("mmi"), call_body("talk"))
        server.loop.submit(job)
        await settle(lambda: [r for r in server.ledger.read() if r.kind == "dispatched"])
        for event in said:
            server.loop.submit(event)
        await settle(lambda: ended(server.ledger))

    server.run(scenario)
    return server, [r for r in replies if isinstance(r, SendReply)]


def test_a_service_streams_reports_and_gets_input() -> None:
    async def handler(call: Call, session: ServiceSession) -> object:
        said = await session.input(5.0)
        session.progress({"got": said})
        await session.stream(b"piece")
        return session.client

    body = CODEC.write_answer(Answer({"offset": 7}))
    _, replies = run_talk(handler, InputReceived(JobId("j"), PeerId("x/c"), body))
    said = {r.kind: CODEC.read_answer(r.body) for r in replies if r.body.parts}
    assert said[ReplyKind.PROGRESS].value == {"got": {"offset": 7}}
    assert said[ReplyKind.CHUNK].raw == b"piece"
    assert said[ReplyKind.FINAL].value == "x/c"


def test_a_cancel_reaches_the_service_and_is_confirmed() -> None:
    async def handler(call: Call, session: ServiceSession) -> object:
        while not session.is_stopped:  # noqa: ASYNC110 - a service looks now and then
            await asyncio.sleep(0)
        raise ServiceFault("given up")

    server, _ = run_talk(handler, JobCancelled(JobId("j"), PeerId("x/c")))
    assert ended(server.ledger)[0].state == "cancelled"
