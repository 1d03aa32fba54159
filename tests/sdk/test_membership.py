"""Registration: join, heartbeats and join again, with an NFP side on a scripted transport."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tests.sdk.scripted_transport import ScriptedTransport

from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.bodies import to_json
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import Assigned, Dismissed, Stop, WorkerNotice
from dragoman.sdk.membership import Membership
from dragoman.transports.base import Frames, Sent

BEAT = wire.KeepAlive(wire.WORKER, b"svc")
DISMISSAL = wire.encode(wire.NfpDisconnect(wire.WORKER, b"svc"))


class WatchedTransport(ScriptedTransport):
    """A transport that sets an event when something is sent."""

    def __init__(self, something_sent: asyncio.Event) -> None:
        super().__init__()
        self._something_sent = something_sent

    def send(self, address: bytes, frames: Frames) -> Sent:
        self._something_sent.set()
        return super().send(address, frames)

    def sent_types(self) -> list[str]:
        return [type(wire.decode(list(frames))).__name__ for frames in self.sent]


class ProxiedTransport(WatchedTransport):
    """A transport with a heartbeat proxy."""

    def __init__(self, something_sent: asyncio.Event) -> None:
        super().__init__(something_sent)
        self.intervals: list[tuple[float, list[list[bytes]]]] = []

    def keep_beating(self, every: float, frames: list[list[bytes]]) -> None:
        self.intervals.append((every, frames))


class Scene:
    """A membership, its transports, and the notices about jobs that it handed on."""

    def __init__(self, kind: type[WatchedTransport] = WatchedTransport) -> None:
        self.something_sent = asyncio.Event()
        self.transports: list[Any] = []
        self.notices: list[WorkerNotice] = []
        self.is_wanted = True
        self.changes: list[bool] = []
        self.side = NfpWorkerSide("w1", "svc")
        self._kind = kind
        self.member = Membership(
            "w1",
            self.side,
            self._make,
            self.notices.append,
            lambda: self.is_wanted,
            self.changes.append,
        )

    def _make(self) -> WatchedTransport:
        self.transports.append(self._kind(self.something_sent))
        return self.transports[-1]  # type: ignore[no-any-return]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that a sent message makes true."""
        async with asyncio.timeout(20):
            while not condition():
                await self.something_sent.wait()
                self.something_sent.clear()


def hold_the_loop(seconds: float) -> None:
    """Block the loop, as a task that holds the interpreter lock does."""
    time.sleep(seconds)


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


def test_a_worker_registers_first_and_deregisters_last() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.member.send([wire.encode(BEAT)])
        async with stage.member.joined():
            assert stage.transports[0].sent_types() == ["Open", "NfpReady", "KeepAlive"]
        assert stage.transports[0].sent_types()[3:] == ["NfpDisconnect"]
        assert stage.transports[0].is_closed

    play(scene)


def test_notices_about_jobs_are_handed_on_and_the_others_are_handled() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            (transport,) = stage.transports
            transport.deliver(wire.encode(BEAT))
            transport.deliver(wire.encode(wire.NfpTask(wire.GET, b"c1", b"unknown", b"")))
            assert transport.sent_types()[2:] == ["NfpReport"]
            assert stage.notices == []
            transport.deliver(wire.encode(wire.NfpTask(wire.POST, b"c1", b"j1", b'{"task":"t"}')))
            transport.deliver(wire.encode(wire.NfpTask(wire.DELETE, b"c1", b"j1", b"")))
            work, stop = stage.notices
            assert isinstance(work, Assigned)
            assert stop == Stop("j1")

    play(scene)


def test_a_dismissed_worker_joins_once_on_a_new_transport() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            stage.transports[0].arrived += [list(DISMISSAL)] * 2
            stage.transports[0].wake()
            stage.member.renew("asked by the user")
            await stage.until(
                lambda: len(stage.transports) == 2 and len(stage.transports[1].sent) == 2
            )
            assert stage.transports[0].is_closed
            assert stage.transports[1].sent_types() == ["Open", "NfpReady"]
            assert stage.member.transport is stage.transports[1]
        assert len(stage.transports) == 2

    play(scene)


def test_a_worker_that_is_not_wanted_any_more_does_not_join_again() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            stage.is_wanted = False
            stage.transports[0].deliver(DISMISSAL)
            assert stage.member._rejoining is not None
            await stage.member._rejoining
            assert stage.transports[1].sent_types() == []

    play(scene)


def test_heartbeats_are_as_frequent_as_the_side_says() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.side.beat_every = 0.01
        async with stage.member.joined():
            await stage.until(lambda: stage.transports[0].sent_types().count("KeepAlive") == 3)

    play(scene)


def test_a_heartbeat_proxy_sends_instead_and_learns_a_new_interval() -> None:
    async def scene() -> None:
        stage = Scene(ProxiedTransport)
        stage.side.beat_every = 1.0
        beat = [list(wire.encode(BEAT))]
        async with stage.member.joined():
            (transport,) = stage.transports
            assert transport.intervals == [(1.0, beat)]
            transport.deliver(wire.encode(BEAT))
            assert transport.intervals == [(1.0, beat)]
            transport.deliver(wire.encode(wire.Open(wire.WORKER, to_json({"beat_every": 0.5}))))
            assert transport.intervals == [(1.0, beat), (0.5, beat)]
        assert "KeepAlive" not in transport.sent_types()

    play(scene)


def test_a_silent_broker_is_tried_again_on_a_new_transport() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.side.beat_every, stage.side.hold = 0.01, 0.05
        async with stage.member.joined():
            await stage.until(
                lambda: len(stage.transports) > 1 and "NfpReady" in stage.transports[1].sent_types()
            )
            assert stage.transports[0].is_closed

    play(scene)


def test_time_in_which_the_loop_was_blocked_is_not_silence_of_the_broker() -> None:
    async def scene() -> None:
        stage = Scene()
        stage.side.beat_every, stage.side.hold = 0.02, 0.3
        async with stage.member.joined():
            for _ in range(3):
                await asyncio.sleep(0)  # the keeper sleeps
                hold_the_loop(0.5)
            for _ in range(10):
                await asyncio.sleep(0)  # the keeper has looked
            assert len(stage.transports) == 1
            await stage.until(lambda: len(stage.transports) > 1)

    play(scene)


def test_silence_is_counted_from_the_last_message() -> None:
    async def scene() -> None:
        stage, now = Scene(), asyncio.get_running_loop().time()
        async with stage.member.joined():
            assert stage.member.silent_for(now + 60.0) <= 60.0
            before = stage.member.silent_for(now)
            stage.transports[0].deliver(wire.encode(BEAT))
            assert stage.member.silent_for(now) <= before

    play(scene)


def test_a_registration_is_confirmed_by_the_broker_and_again_after_a_dismissal() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            stage.transports[0].deliver(wire.encode(wire.Open(wire.WORKER, to_json({}))))
            assert stage.changes == [], "the answer to OPEN is not one to READY"
            stage.transports[0].deliver(wire.encode(BEAT))
            assert stage.changes == [True]
            stage.transports[0].deliver(DISMISSAL)
            await stage.until(lambda: len(stage.transports) == 2 and stage.transports[1].sent)
            assert stage.changes == [True, False]
            stage.transports[1].deliver(wire.encode(BEAT))
            assert stage.changes == [True, False, True]

    play(scene)


REFUSAL = wire.encode(
    wire.NfpDisconnect(wire.BROKER, b"svc", to_json({"reason": "no right to register"}))
)


def test_a_worker_that_is_refused_again_and_again_waits_longer_and_knows_why() -> None:
    async def scene() -> None:
        stage = Scene()
        pauses = []
        async with stage.member.joined():
            for _ in range(4):
                pauses.append(stage.member._pause())
                stage.member._dismissed(Dismissed("no right to register"))
                rejoining, stage.member._rejoining = stage.member._rejoining, None
                assert rejoining is not None
                rejoining.cancel()
            assert pauses == [0.0, 0.25, 0.5, 1.0]
            assert stage.member.refusal == "no right to register"
            stage.member._dismissals = 40
            assert stage.member._pause() == 30.0
            stage.member._joined_at -= 11.0
            assert stage.member._pause() == 0.0, "a lasting session was accepted"

    play(scene)


def test_the_first_dismissal_is_no_refusal_and_its_reason_is_read_from_the_message() -> None:
    async def scene() -> None:
        stage = Scene()
        async with stage.member.joined():
            stage.transports[0].deliver(REFUSAL)
            await stage.until(lambda: len(stage.transports) == 2 and bool(stage.transports[1].sent))
            assert stage.member.refusal == ""
            assert stage.member._reason == "no right to register"
            stage.transports[1].deliver(wire.encode(BEAT))
            assert stage.member._reason == ""

    play(scene)
