"""The application's connection: what is handed over, acknowledged, delivered and refused."""

import asyncio
from typing import Any

import pytest
from tests.web.memory_broker import MemoryBroker, play

from dragoman.core.effects import SendBeat
from dragoman.core.events import BeatReceived
from dragoman.dialects.base import Send
from dragoman.model.names import PeerId
from dragoman.transports.base import Sent
from dragoman.web import broker_connection as module
from dragoman.web.broker_connection import WebBrokerConnection
from dragoman.web.identity import CALLER, Checks, HttpCaller
from dragoman.web.problems import Problem

BEAT = BeatReceived(PeerId("http/worker:0a"))


class Taker:
    """A peer that keeps what it takes."""

    def __init__(self) -> None:
        self.taken: list[tuple[Any, float]] = []

    def take(self, item: Any, now: float) -> Sent:
        self.taken.append((item, now))
        return Sent.YES


def test_what_is_handed_over_is_drained_in_order_and_wakes_the_loop() -> None:
    async def scene() -> None:
        connection, woken = WebBrokerConnection(), list[None]()
        await connection.open(lambda: woken.append(None))
        for number in range(3):
            connection.hand_over(b"%d" % number, BEAT)
        assert len(woken) == 3
        assert [address for address, _ in connection.drain(2)] == [b"0", b"1"]
        assert len(woken) == 4  # one more waits
        assert list(connection.drain(2)) == [(b"2", (BEAT,))]

    asyncio.run(scene())


def test_an_acknowledgement_goes_behind_its_event_and_is_strict() -> None:
    async def scene() -> None:
        connection = WebBrokerConnection()
        committing = asyncio.create_task(connection.commit(b"a", BEAT))
        await asyncio.sleep(0)
        ((_, (event, send)),) = connection.drain(10)
        assert event == BEAT
        assert isinstance(send, Send)
        assert send.is_strict
        assert not committing.done()
        assert connection.send(send.address, send.frames) is Sent.YES
        await committing

    asyncio.run(scene())


def test_an_effect_reaches_its_peer_and_nobody_else() -> None:
    async def scene() -> None:
        connection, peer = WebBrokerConnection(), Taker()
        effect: Any = SendBeat(PeerId("http/a"))
        assert connection.send(b"a", (effect, 1.0)) is Sent.GONE
        connection.connect(b"a", peer)
        assert connection.send(b"a", (effect, 1.0)) is Sent.YES
        assert peer.taken == [(effect, 1.0)]
        connection.disconnect(b"a")
        assert connection.send(b"a", (effect, 1.0)) is Sent.GONE

    asyncio.run(scene())


def test_a_broker_that_does_not_answer_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)

    async def scene(broker: MemoryBroker) -> None:
        broker.is_silent = True
        for path in ("/v1/jobs/j", "/v1/jobs/j/result"):
            status, problem = await broker.ask("GET", path)
            assert (status, problem["code"]) == (503, "busy")
        assert (await broker.submit())[0] == 503

    play(scene)


def test_a_request_after_the_broker_began_to_stop_is_refused() -> None:
    async def scene(broker: MemoryBroker) -> None:
        broker.application.close()
        status, problem = await broker.submit()
        assert (status, problem["code"]) == (503, "draining")

    play(scene)


def test_an_address_belongs_to_the_principal_that_used_it_first() -> None:
    async def scene() -> None:
        checks = Checks(lambda token: token, lambda key: True, lambda key: key.partition("#")[0])
        connection = WebBrokerConnection(checks)
        CALLER.set(HttpCaller("ann#1", "ann"))
        connection.hand_over(b"desk", BEAT)
        CALLER.set(HttpCaller("ann#2", "ann"))
        connection.hand_over(b"desk", BEAT)
        assert connection.key_of(b"desk") == "ann#2"
        CALLER.set(HttpCaller("bob#1", "bob"))
        with pytest.raises(Problem, match="another principal"):
            connection.hand_over(b"desk", BEAT)
        connection.disconnect(b"desk")
        connection.hand_over(b"desk", BEAT)
        assert connection.key_of(b"desk") == "bob#1"

    asyncio.run(scene())
