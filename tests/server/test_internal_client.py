"""The house as a client: ordinary jobs, and every ending is an answer."""

import itertools

from tests.server.stage import CODEC, Stage, settle

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


def test_a_worker_is_asked_by_a_recorded_job() -> None:
    stage = Stage()

    async def play(stage: Stage) -> list[Answer]:
        ServiceRunner(stage.hub).offer(BuiltinService("w1", ("net",), handler, 5))
        await settle(stage.has_workers)
        ids = map(str, itertools.count())
        asking = InternalClient(stage.hub, stage.loop.submit, lambda: next(ids))
        return [
            await asking.ask("net", "w1", Call("mmi.show")),
            await asking.ask("net", "w1", Call("fail")),
            await asking.ask("net", "nobody", Call("mmi.show")),
        ]

    said, failed, missing = stage.run(play)
    assert value_of(said) == {"task": "mmi.show", "by": "local/house"}
    assert value_of(failed) == {"failed": True, "error": "not today"}
    assert missing.fault is not None
    assert missing.fault.code is FaultCode.NO_WORKER
    assert [r.client for r in stage.ledger.read() if r.kind == "submitted"] == ["local/house"] * 2


def test_what_else_is_said_to_the_house_is_ignored() -> None:
    stage = Stage()

    async def play(stage: Stage) -> None:
        InternalClient(stage.hub, stage.loop.submit, lambda: "j")
        stage.hub.send(b"house", wire.encode(wire.LocalLeave()))
        told = wire.LocalJobEnded("never asked", CODEC.write_answer(Answer(1)).parts[0])
        stage.hub.send(b"house", wire.encode(told))

    stage.run(play)


def test_raw_answers_and_faults_without_words_are_values_too() -> None:
    assert value_of(Answer(raw=b"x")) == b"x"
    assert value_of(Answer(fault=Fault(FaultCode.TASK_FAILED)))["error"] == "task_failed"
