"""Lines: who waits for what, on a hub without a broker."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.dialects.http import wire
from dragoman.transports.memory import MemoryHub
from dragoman.web import client_channels as module
from dragoman.web.client_channels import ClientChannels
from dragoman.web.problems import Problem


class Stage:
    """A hub whose other end is played by the test."""

    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.lines = ClientChannels(self.hub)

    def said(self) -> list[tuple[bytes, Any]]:
        return [(address, wire.decode(frames)[0]) for address, frames in self.hub.drain(1000)]

    def tell(self, address: bytes, message: wire.Message) -> None:
        self.hub.send(address, wire.encode(message))


def play(scene: Callable[[Stage], Any]) -> None:
    async def act() -> None:
        await scene(Stage())

    asyncio.run(act())


def test_a_refusal_is_for_the_request_it_belongs_to() -> None:
    async def scene(stage: Stage) -> None:
        line = stage.lines.of("a")
        good = asyncio.create_task(line.deliver(wire.Submit("1", "j1", "s"), ()))
        bad = asyncio.create_task(line.deliver(wire.Submit("2", "j2", "s"), ()))
        await asyncio.sleep(0)
        assert [m.job for _, m in stage.said()] == ["j1", "j2"]
        stage.tell(b"a", wire.Told("j2", "final", fault="conflict", words="taken"))
        stage.tell(b"a", wire.Heard("1"))
        stage.tell(b"a", wire.Heard("2"))
        await good
        with pytest.raises(Problem, match="taken"):
            await bad
        assert line.is_idle

    play(scene)


def test_everybody_who_asked_about_a_job_is_answered() -> None:
    async def scene(stage: Stage) -> None:
        line = stage.lines.of("a")
        asks = [asyncio.create_task(line.ask(wire.Ask("j"))) for _ in range(3)]
        cancel = asyncio.create_task(line.ask(wire.Cancel("j")))
        await asyncio.sleep(0)
        stage.tell(b"a", wire.Standing("result", "j", "j", "running"))
        assert [(await ask)[0].state for ask in asks] == ["running"] * 3
        assert not cancel.done()
        stage.tell(b"a", wire.Standing("cancel", "j", "j", "cancelled"))
        assert (await cancel)[0].state == "cancelled"

    play(scene)


def test_the_ledger_is_watched_only_while_somebody_waits() -> None:
    async def scene(stage: Stage) -> None:
        with stage.lines.watching("j") as first, stage.lines.watching("k") as second:
            stage.tell(b":watch", wire.Event("ended", 1, "broker.ended", "j"))
            assert (first.is_set(), second.is_set()) == (True, False)
        topics = [message.topics for _, message in stage.said()]
        assert topics == [("broker.ended",), ()]

    play(scene)


def test_a_broker_that_does_not_answer_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)

    async def scene(stage: Stage) -> None:
        with pytest.raises(Problem, match="did not answer"):
            await stage.lines.of("a").ask(wire.Ask("j"))

    play(scene)


def test_when_the_broker_goes_down_nobody_is_left_waiting() -> None:
    async def scene(stage: Stage) -> None:
        line = stage.lines.of("a")
        asking = asyncio.create_task(line.ask(wire.Ask("j")))
        saying = asyncio.create_task(line.deliver(wire.Submit("1", "j", "s"), ()))
        with stage.lines.watching("j") as ended:
            waiting = asyncio.create_task(stage.lines.ended(ended, 60.0))
            await asyncio.sleep(0)
            stage.lines.close()
            for task in (asking, saying, waiting):
                with pytest.raises(Problem, match="going down"):
                    await task
        with pytest.raises(Problem, match="going down"):
            stage.lines.of("b")

    play(scene)


def test_lines_that_nobody_uses_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)

    async def scene(stage: Stage) -> None:
        busy = stage.lines.of("busy")
        busy.inbox = lambda message, parts: None
        for n in range(10):
            stage.lines.of(f"c{n}")
        assert len(stage.lines._lines) == 2
        assert stage.lines.of("busy") is busy

    play(scene)
