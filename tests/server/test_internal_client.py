"""The broker as a client: its calls are ordinary jobs, and every end is an answer."""

import itertools

from tests.server.memory_server import CODEC, MemoryServer, settle

from dragoman.dialects.local import wire
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.server.internal_client import InternalClient, value_of
from dragoman.server.service_runner import ServiceRunner
from dragoman.services.base import BuiltinService, ServiceFault, ServiceSession


def handler(call: Call, session: ServiceSession) -> object:
    if call.task == "fail":
        raise ServiceFault("not today")
    return {"task": call.task, "by": session.client}


def test_a_worker_is_called_by_a_recorded_job() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> list[Answer]:
        ServiceRunner(server.hub).offer(BuiltinService("w1", ("net",), handler, 5))
        await settle(server.has_workers)
        ids = map(str, itertools.count())
        client = InternalClient(server.hub, server.loop.submit, lambda: next(ids))
        return [
            await client.ask("net", "w1", Call("mmi.show")),
            await client.ask("net", "w1", Call("fail")),
            await client.ask("net", "nobody", Call("mmi.show")),
        ]

    said, failed, missing = server.run(scenario)
    assert value_of(said) == {"task": "mmi.show", "by": "local/house"}
    assert value_of(failed) == {"failed": True, "error": "not today"}
    assert missing.fault is not None
    assert missing.fault.code is FaultCode.NO_WORKER
    assert [r.client for r in server.ledger.read() if r.kind == "submitted"] == ["local/house"] * 2


def test_other_messages_to_the_internal_client_are_ignored() -> None:
    server = MemoryServer()

    async def scenario(server: MemoryServer) -> None:
        InternalClient(server.hub, server.loop.submit, lambda: "j")
        server.hub.send(b"house", wire.encode(wire.LocalLeave()))
        result = wire.LocalJobEnded("never asked", CODEC.write_answer(Answer(1)).parts[0])
        server.hub.send(b"house", wire.encode(result))

    server.run(scenario)


def test_raw_answers_and_faults_without_a_message_are_values_too() -> None:
    assert value_of(Answer(raw=b"x")) == b"x"
    assert value_of(Answer(fault=Fault(FaultCode.TASK_FAILED)))["error"] == "task_failed"
