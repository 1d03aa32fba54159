"""Being a member: joining, beating, and joining anew, with a side of NFP on a line in memory."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sdk.line import Line

from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.bodies import to_json
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import Assigned, Stop, WorkerNotice
from dragoman.sdk.membership import Membership
from dragoman.transports.base import Frames, Sent

BEAT = wire.KeepAlive(wire.WORKER, b"svc")
DISMISSAL = wire.encode(wire.NfpDisconnect(wire.WORKER, b"svc"))


class Watched(Line):
    """A line that says when something was sent."""

    def __init__(self, told: asyncio.Event) -> None:
        super().__init__()
        self._told = told

    def send(self, address: bytes, frames: Frames) -> Sent:
        self._told.set()
        return super().send(address, frames)

    def said(self) -> list[str]:
        return [type(wire.decode(list(frames))).__name__ for frames in self.sent]


class Couriered(Watched):
    """A line with a courier, which beats by itself."""

    def __init__(self, told: asyncio.Event) -> None:
        super().__init__(told)
        self.paces: list[tuple[float, list[list[bytes]]]] = []

    def keep_beating(self, every: float, frames: list[list[bytes]]) -> None:
        self.paces.append((every, frames))


class Scene:
    """A member, its lines, and what it heard of jobs."""

    def __init__(self, kind: type[Watched] = Watched) -> None:
        self.told = asyncio.Event()
        self.lines: list[Any] = []
        self.heard: list[WorkerNotice] = []
        self.is_wanted = True
        self.side = NfpWorkerSide("w1", "svc")
        self._kind = kind
        self.member = Membership(
            "w1", self.side, self._make, self.heard.append, lambda: self.is_wanted
        )

    def _make(self) -> Watched:
        self.lines.append(self._kind(self.told))
        return self.lines[-1]  # type: ignore[no-any-return]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that shows in what is sent."""
        async with asyncio.timeout(20):
            while not condition():
                await self.told.wait()
                self.told.clear()


def hold_the_loop(seconds: float) -> None:
    """Do what a task does that holds the interpreter lock."""
    time.sleep(seconds)


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


def test_a_member_joins_first_and_says_good_bye_last() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.member.send([wire.encode(BEAT)])
        async with stage.member.joined():
            assert stage.lines[0].said() == ["Open", "NfpReady", "KeepAlive"]
        assert stage.lines[0].said()[3:] == ["NfpDisconnect"]
        assert stage.lines[0].is_closed

    play(scene)


def test_words_about_jobs_are_handed_on_and_the_others_are_its_own() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            (line,) = stage.lines
            line.say(wire.encode(BEAT))
            line.say(wire.encode(wire.NfpTask(wire.GET, b"c1", b"unknown", b"")))
            assert line.said()[2:] == ["NfpReport"]
            assert stage.heard == []
            line.say(wire.encode(wire.NfpTask(wire.POST, b"c1", b"j1", b'{"task":"t"}')))
            line.say(wire.encode(wire.NfpTask(wire.DELETE, b"c1", b"j1", b"")))
            work, stop = stage.heard
            assert isinstance(work, Assigned)
            assert stop == Stop("j1")

    play(scene)


def test_a_dismissed_member_joins_once_on_a_new_line_however_often_it_is_told() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            stage.lines[0].arrived += [list(DISMISSAL)] * 2
            stage.lines[0].wake()
            stage.member.renew("and by its owner")
            await stage.until(lambda: len(stage.lines) == 2 and len(stage.lines[1].sent) == 2)
            assert stage.lines[0].is_closed
            assert stage.lines[1].said() == ["Open", "NfpReady"]
            assert stage.member.transport is stage.lines[1]
        assert len(stage.lines) == 2

    play(scene)


def test_a_member_that_is_not_wanted_any_more_does_not_join_again() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            stage.is_wanted = False
            stage.lines[0].say(DISMISSAL)
            assert stage.member._rejoining is not None
            await stage.member._rejoining
            assert stage.lines[1].said() == []

    play(scene)


def test_it_beats_as_often_as_its_side_says() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.side.beat_every = 0.01
        async with stage.member.joined():
            await stage.until(lambda: stage.lines[0].said().count("KeepAlive") == 3)

    play(scene)


def test_a_courier_beats_instead_and_is_told_when_the_pace_changes() -> None:
    async def scene() -> None:
        stage = Scene(Couriered)
        stage.side.beat_every = 1.0
        beat = [list(wire.encode(BEAT))]
        async with stage.member.joined():
            (line,) = stage.lines
            assert line.paces == [(1.0, beat)]
            line.say(wire.encode(BEAT))
            assert line.paces == [(1.0, beat)]
            line.say(wire.encode(wire.Open(wire.WORKER, to_json({"beat_every": 0.5}))))
            assert line.paces == [(1.0, beat), (0.5, beat)]
        assert "KeepAlive" not in line.said()

    play(scene)


def test_a_silent_broker_is_looked_for_on_a_new_line() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.side.beat_every, stage.side.hold = 0.01, 0.05
        async with stage.member.joined():
            await stage.until(lambda: len(stage.lines) > 1 and "NfpReady" in stage.lines[1].said())
            assert stage.lines[0].is_closed

    play(scene)


def test_a_member_that_could_not_listen_does_not_call_the_broker_silent() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.side.beat_every, stage.side.hold = 0.02, 0.3
        async with stage.member.joined():
            for _ in range(3):
                await asyncio.sleep(0)  # the keeper sleeps
                hold_the_loop(0.5)
            for _ in range(10):
                await asyncio.sleep(0)  # the keeper has looked
            assert len(stage.lines) == 1
            await stage.until(lambda: len(stage.lines) > 1)

    play(scene)


def test_silence_is_counted_from_what_was_heard_last() -> None:
    async def scene() -> None:
        stage, now = Scene(), asyncio.get_running_loop().time()
        async with stage.member.joined():
            assert stage.member.silent_for(now + 60.0) <= 60.0
            before = stage.member.silent_for(now)
            stage.lines[0].say(wire.encode(BEAT))
            assert stage.member.silent_for(now) <= before

    play(scene)
