"""Clients of the web application: which request gets which answer, and who waits for an end."""

import asyncio

import pytest
from tests.web.memory_broker import MemoryBroker, play

from dragoman.core.effects import Effect
from dragoman.core.events import Event
from dragoman.model.record import Kind
from dragoman.web import client_channels as module

CALL = {"service": "s", "job": "j", "task": "t"}


def test_a_submission_is_acknowledged_and_recorded_as_strict() -> None:
    async def scene(broker: MemoryBroker) -> None:
        assert (await broker.submit())[0] == 202
        (submitted,) = broker.kinds(Kind.SUBMITTED)
        assert (submitted.strict, submitted.client) == (True, "http/alice")

    play(scene)


def test_a_refusal_is_for_the_request_it_belongs_to() -> None:
    async def scene(broker: MemoryBroker) -> None:
        assert (await broker.submit("j"))[0] == 202
        good, bad = await asyncio.gather(broker.submit("k"), broker.submit("j", task="other"))
        assert good[0] == 202
        assert (bad[0], bad[1]["code"], bad[1]["job"]) == (409, "conflict", "j")
        assert broker.application._channels.of("alice").is_idle

    play(scene)


def test_every_request_about_a_job_is_answered() -> None:
    async def scene(broker: MemoryBroker) -> None:
        await broker.submit()
        answers = await asyncio.gather(*(broker.ask("GET", "/v1/jobs/j") for _ in range(3)))
        assert [(status, found["state"]) for status, found in answers] == [(200, "queued")] * 3
        _, found = await broker.ask("DELETE", "/v1/jobs/j")
        assert (found["cancelled"], found["confirmed"]) == (True, True)

    play(scene)


def test_an_unknown_job_is_not_found() -> None:
    async def scene(broker: MemoryBroker) -> None:
        for path in ("/v1/jobs/nope", "/v1/jobs/nope/result"):
            status, problem = await broker.ask("GET", path)
            assert (status, problem["code"]) == (404, "unknown_job")
        status, problem = await broker.ask("POST", "/v1/jobs/nope/input", {"value": 1})
        assert (status, problem["code"]) == (404, "unknown_job")
        assert broker.application._channels.of("alice").is_idle

    play(scene)


def test_a_call_ends_with_the_final_reply_and_asks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker, handled = await broker.register(name="w"), list[str]()
        handle = broker.core.handle

        def seen(event: Event, now: float) -> list[Effect]:
            handled.append(type(event).__name__)
            return handle(event, now)

        monkeypatch.setattr(broker.core, "handle", seen)
        call = broker.begin("POST", "/v1/call", CALL)
        await broker.settle()
        await broker.ask("POST", f"{worker}/jobs/j/1", {"value": 5})
        status, found = await call
        assert (status, found["value"], found["worker"]) == (200, 5, "w")
        assert handled == ["JobSubmitted", "ReplyReceived"]
        assert broker.application._channels.of("alice").is_idle
        assert not broker.application._channels.endings

    play(scene)


def test_a_call_whose_job_another_client_took_over_still_gets_the_result() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        first = broker.begin("POST", "/v1/call", CALL)
        await broker.settle()
        second = broker.begin("POST", "/v1/call", CALL, Dragoman_Client="bob")
        await broker.settle()
        await broker.ask("POST", f"{worker}/jobs/j/1", {"value": 5})
        for call in (first, second):
            assert (await call)[1]["value"] == 5

    play(scene)


def test_calls_with_one_key_and_several_ids_all_get_the_result() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        calls = []
        for number, client in enumerate(("alice", "bob", "carol")):
            body = CALL | {"job": f"j{number}", "key": "k"}
            calls.append(broker.begin("POST", "/v1/call", body, Dragoman_Client=client))
            await broker.settle()
        await broker.ask("POST", f"{worker}/jobs/j0/1", {"value": 5})
        answers = [await call for call in calls]
        assert [(found["job"], found["value"]) for _, found in answers] == [
            ("j0", 5),
            ("j1", 5),
            ("j2", 5),
        ]

    play(scene)


def test_the_result_of_another_clients_job_is_waited_for() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        await broker.submit()
        result = broker.begin("GET", "/v1/jobs/j/result?wait=30", Dragoman_Client="bob")
        await broker.settle()
        assert not result.done()
        await broker.ask("POST", f"{worker}/jobs/j/1", {"value": 5})
        assert (await result)[1]["value"] == 5
        assert not broker.application._channels.endings

    play(scene)


def test_a_result_that_does_not_come_in_time_is_pending() -> None:
    async def scene(broker: MemoryBroker) -> None:
        await broker.submit()
        status, found = await broker.ask("GET", "/v1/jobs/j/result?wait=0.01")
        assert (status, found["state"]) == (202, "queued")

    play(scene)


@pytest.mark.parametrize(("on_disconnect", "state"), [("cancel", "cancelled"), ("continue", "")])
def test_a_caller_that_disconnects_may_take_its_job_with_it(on_disconnect: str, state: str) -> None:
    async def scene(broker: MemoryBroker) -> None:
        call = broker.begin("POST", "/v1/call", CALL | {"on_disconnect": on_disconnect})
        await broker.settle()
        broker.disconnected.set()
        assert (await call)[0] == 499
        await broker.settle()
        ended = broker.kinds(Kind.ENDED)
        assert [record.state for record in ended] == ([state] if state else [])

    play(scene)


def test_when_the_broker_stops_no_request_is_left_waiting() -> None:
    async def scene(broker: MemoryBroker) -> None:
        call = broker.begin("POST", "/v1/call", CALL)
        await broker.settle()
        result = broker.begin("GET", "/v1/jobs/j/result?wait=30")
        await broker.settle()
        broker.is_silent = True
        asking, saying = broker.begin("GET", "/v1/jobs/j"), asyncio.create_task(broker.submit("k"))
        await broker.settle()
        broker.application.close()
        for pending in (call, result, asking, saying):
            status, problem = await pending
            assert (status, problem["code"]) == (503, "draining")

    play(scene)


def test_idle_channels_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)

    async def scene(broker: MemoryBroker) -> None:
        channels = broker.application._channels
        busy = channels.of("busy")
        busy.inbox = lambda reply: None
        for number in range(10):
            channels.of(f"c{number}")
        assert len(channels._channels) == 2
        assert channels.of("busy") is busy

    play(scene)
