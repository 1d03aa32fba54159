"""Endpoints and connection limits, with connections that ignore their input."""

import asyncio
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.transports.sp_peers import peer, run

from dragoman.transports.accepted_connection import AcceptedConnection, ConnectionLimits
from dragoman.transports.listener import Listener


class IdleConnection(AcceptedConnection):
    greeting = b"hm"

    def data_received(self, data: bytes) -> None:
        self.owner.greeted(self)


class IdleListener(Listener[IdleConnection]):
    def _protocol(self, number: int, is_ipc: bool) -> Callable[[], asyncio.Protocol]:
        return lambda: IdleConnection(self, is_ipc)


def make_listener(endpoints: str = "tcp://127.0.0.1:0", **limits: float) -> IdleListener:
    return IdleListener(endpoints, ConnectionLimits(**limits))  # type: ignore[arg-type]


def test_several_endpoints_are_listened_on_and_named_in_full(tmp_path: Path) -> None:
    async def test() -> None:
        made = make_listener(f"tcp://127.0.0.1:0, tcp://[::1]:0,ipc://{tmp_path}/s")
        first, second, third = (await made.open(lambda: None)).split(",")
        assert not first.endswith(":0")
        assert second.startswith("tcp://[::1]:")
        for endpoint in (first, second, third):
            async with peer(endpoint, b"") as somebody:
                assert await somebody.hear(2) == b"hm"
        await made.close()
        assert not (tmp_path / "s").exists()

    run(test)


@pytest.mark.parametrize(
    "endpoint", ["tcp://", "udp://127.0.0.1:1", "127.0.0.1:5", "ipc://", "tcp://[::1]:x"]
)
def test_an_endpoint_that_makes_no_sense_is_refused_with_a_reason(endpoint: str) -> None:
    async def test() -> None:
        with pytest.raises(ValueError, match="neither tcp://host:port nor ipc:///path"):
            await make_listener(endpoint).open(lambda: None)

    run(test)


def test_a_crowd_is_let_in_some_at_a_time_and_none_of_it_is_turned_away() -> None:
    async def test() -> None:
        made = make_listener()
        host, port = (await made.open(lambda: None)).removeprefix("tcp://").split(":")
        crowd = [socket.create_connection((host, int(port))) for _ in range(200)]
        seen = [0]
        while seen[-1] < len(crowd):
            await asyncio.sleep(0)
            seen.append(len(made._accepted))
        assert max(after - before for before, after in pairwise(seen)) <= 20
        for each in crowd:
            each.close()
        await made.close()

    run(test)


def test_connections_without_a_greeting_end_and_one_with_it_stays() -> None:
    async def test() -> None:
        made = make_listener(greeting=0.05)
        endpoint = await made.open(lambda: None)
        async with peer(endpoint, b"hello") as good, peer(endpoint, b"") as bad:
            assert await bad.hear(2) == b"hm"
            assert await bad.is_closed()
            assert made.trouble == {"no greeting": 1}
            assert await good.hear(2) == b"hm"
            assert len(made._accepted) == 1
        await made.close()

    run(test)


def test_one_connection_too_many_is_closed_immediately() -> None:
    async def test() -> None:
        made = make_listener(connections=1)
        endpoint = await made.open(lambda: None)
        async with peer(endpoint, b"hello") as first:
            assert await first.hear(2) == b"hm"
            async with peer(endpoint, b"") as second:
                assert await second.is_closed()
        assert made.trouble == {"too many connections": 1}
        await made.close()

    run(test)


def test_a_key_is_cut_off_and_others_are_not() -> None:
    async def test() -> None:
        made = make_listener()
        endpoint = await made.open(lambda: None)
        async with peer(endpoint, b"") as bad, peer(endpoint, b"") as good:
            await bad.hear(2)
            await good.hear(2)
            connections = {
                connection.transport.get_extra_info("peername")[1]: connection
                for connection in made._accepted
            }
            connections[bad.writer.get_extra_info("sockname")[1]].key = "k"
            made.cut("k")
            assert await bad.is_closed()
            assert len(made._accepted) == 1
        await made.close()

    run(test)
