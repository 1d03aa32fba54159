"""Worker sessions: messages, polls, leases, and what a session holds."""

import asyncio

import pytest
from tests.web.memory_broker import MemoryBroker, play

from dragoman.core.effects import SendCancel
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.names import JobId, PeerId
from dragoman.model.record import Kind
from dragoman.transports.base import Sent
from dragoman.web import worker_sessions as module

FAST = HttpSettings(beat_every=1.0, missed_allowed=3, longest_lease=30.0)


def test_a_job_message_has_the_clients_call_and_the_time_that_is_left() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        await broker.submit(task="t", args=[{"$bytes": "AA=="}], kwargs={"é": 1})
        message = await broker.poll(worker)
        assert (message["kind"], message["job"], message["attempt"]) == ("job", "j", 1)
        assert (message["task"], message["client"]) == ("t", "alice")
        assert (message["args"], message["kwargs"]) == ([{"$bytes": "AA=="}], {"é": 1})
        assert message["timeout"] == 600.0

    play(scene)


def test_a_message_is_repeated_until_it_is_acknowledged() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register(credit=2)
        await broker.submit("j")
        await broker.submit("k")
        assert (await broker.poll(worker))["job"] == "j"
        again = await broker.poll(worker)
        assert (again["job"], again["word"]) == ("j", 1)
        assert (await broker.poll(worker, after=1))["job"] == "k"

    play(scene)


def test_a_report_posted_twice_counts_once_and_an_old_attempt_not_at_all() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        await broker.submit()
        verdicts = []
        for attempt in (7, 1, 1):
            _, found = await broker.ask("POST", f"{worker}/jobs/j/{attempt}", {"value": 2})
            verdicts.append(found["status"])
        assert verdicts == ["late", "taken", "repeated"]
        assert len(broker.kinds(Kind.LATE)) == 1
        assert [r.state for r in broker.kinds(Kind.ENDED)] == ["succeeded"]

    play(scene)


def test_a_waiting_poll_keeps_the_lease_and_silence_ends_the_session() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        await broker.submit()
        for _ in range(10):
            broker.pass_time(1.0)
            await broker.poll(worker, after=1)
        assert not broker.kinds(Kind.LEFT)
        broker.pass_time(3.5)
        assert len(broker.kinds(Kind.LEFT)) == len(broker.kinds(Kind.REQUEUED)) == 1
        status, problem = await broker.ask("POST", f"{worker}/poll", {"wait": 0})
        assert (status, problem["code"]) == (404, "unknown_session")

    play(scene, FAST)


def test_a_busy_worker_may_ask_for_a_longer_lease() -> None:
    async def scene(broker: MemoryBroker) -> None:
        await broker.register(busy_lease=20.0)
        await broker.submit()
        broker.pass_time(15.0)
        assert not broker.kinds(Kind.LEFT)
        broker.pass_time(6.0)
        assert broker.kinds(Kind.LEFT)

    play(scene, FAST)


@pytest.mark.parametrize(
    ("holds", "attempts", "verdict"), [(["j"], [1], "taken"), ([], [1, 2], "late")]
)
def test_a_worker_that_resumes_keeps_only_what_it_holds(
    holds: list[str], attempts: list[int], verdict: str
) -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        await broker.submit()
        session = worker.rpartition("/")[2]
        assert await broker.register(session=session, holds=holds) == worker
        assert [r.attempt for r in broker.kinds(Kind.DISPATCHED)] == attempts
        _, found = await broker.ask("POST", f"{worker}/jobs/j/1", {"value": 2})
        assert found["status"] == verdict

    play(scene)


def test_the_jobs_of_a_worker_that_leaves_go_to_another() -> None:
    async def scene(broker: MemoryBroker) -> None:
        first = await broker.register()
        await broker.submit()
        second = await broker.register()
        assert (await broker.ask("DELETE", first))[0] == 204
        assert (await broker.poll(second))["job"] == "j"
        assert (await broker.ask("DELETE", first))[0] == 404

    play(scene)


def test_a_job_handed_back_or_forwarded_goes_elsewhere() -> None:
    async def scene(broker: MemoryBroker) -> None:
        first = await broker.register()
        await broker.submit()
        second, third = await broker.register(), await broker.register("next")
        await broker.ask("POST", f"{first}/jobs/j/1", {"kind": "handed_back"})
        assert (await broker.poll(second))["attempt"] == 2
        body = {"kind": "forward", "service": "next", "task": "u"}
        _, found = await broker.ask("POST", f"{second}/jobs/j/2", body)
        assert found["status"] == "taken"
        assert (await broker.poll(third))["task"] == "u"

    play(scene)


def test_questions_input_cancels_and_events_pass() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        await broker.submit()
        body = {"kind": "ask", "request": "q", "value": "name?"}
        await broker.ask("POST", f"{worker}/jobs/j/1", body)
        assert (await broker.ask("GET", "/v1/jobs/j"))[1]["waiting_for_input"] is True
        await broker.ask("POST", "/v1/jobs/j/input", {"value": "bob", "request": "q"})
        given = await broker.poll(worker, after=1)
        assert (given["kind"], given["value"], given["request"]) == ("input", "bob", "q")
        cancel = broker.begin("DELETE", "/v1/jobs/j")
        await broker.settle()
        assert (await broker.poll(worker, after=2))["kind"] == "cancel"
        assert not cancel.done()
        await broker.ask("POST", f"{worker}/jobs/j/1", {"kind": "cancelled"})
        assert (await cancel)[1]["confirmed"] is True
        await broker.ask("POST", f"{worker}/events", {"topic": "my.topic", "event": 1})
        assert broker.records[-1].detail == "my.topic"

    play(scene)


def test_a_newer_poll_ends_an_older_one() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        older = broker.begin("POST", f"{worker}/poll", {"wait": 30})
        await broker.settle()
        newer = broker.begin("POST", f"{worker}/poll", {"wait": 30})
        assert await older == (200, {})
        await broker.submit()
        assert (await newer)[1]["job"] == "j"

    play(scene)


def test_a_poll_ends_when_its_worker_disconnects_or_the_broker_stops() -> None:
    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        poll = broker.begin("POST", f"{worker}/poll", {"wait": 30})
        await broker.settle()
        broker.disconnected.set()
        assert (await poll)[0] == 499
        broker.disconnected = asyncio.Event()
        poll = broker.begin("POST", f"{worker}/poll", {"wait": 30})
        await broker.settle()
        broker.application.close()
        status, problem = await poll
        assert (status, problem["code"]) == (404, "unknown_session")

    play(scene)


def test_sessions_and_waiting_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    monkeypatch.setattr(module, "MOST_MESSAGES", 1)

    async def scene(broker: MemoryBroker) -> None:
        worker = await broker.register()
        status, problem = await broker.ask("POST", "/v1/workers", {"services": ["s"]})
        assert (status, problem["code"]) == (429, "too_many_workers")
        await broker.submit()
        session = broker.application._workers.sessions.find(worker.rpartition("/")[2])
        cancel = SendCancel(session.peer, JobId("j"), 1, PeerId("http/alice"))
        assert session.take(cancel, 1.0) is Sent.FULL
        await broker.ask("DELETE", worker)
        await broker.register()

    play(scene)
