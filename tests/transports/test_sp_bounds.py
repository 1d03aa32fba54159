"""The limits of an SP replier; slow peers lose nothing."""

import asyncio
from pathlib import Path

import pytest
from tests.transports.sp_peers import HELLO, LIMIT, Replier, frame, peer, replier, run

from dragoman.transports.accepted_connection import ConnectionLimits
from dragoman.transports.base import OversizedFrame, Sent
from dragoman.transports.sp_connection import REPLIER, REQUESTER


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("0053500000310000"),
        bytes.fromhex("0053500000300001"),
        REQUESTER + (4).to_bytes(8) + b"\0\0\0\0",
        REQUESTER + (3).to_bytes(8) + b"\x80\0\0",
        REQUESTER + (0).to_bytes(8),
        REQUESTER + (80).to_bytes(8) + b"\0" * 80,
    ],
)
def test_a_connection_that_makes_no_sense_is_closed_and_others_live_on(garbage: bytes) -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint) as good:
            async with peer(broker.endpoint, garbage) as bad:
                await bad.reader.read(8)
                assert await bad.is_closed()
            assert sum(broker.replier.trouble.values()) == 1
            good.say(HELLO)
            await broker.take(1)

    run(test)


def test_an_ipc_frame_of_another_type_closes_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with replier(f"ipc://{tmp_path}/s") as broker, peer(broker.endpoint) as bad:
            bad.say(b"\2" + frame(1))
            await bad.hear(8)
            assert await bad.is_closed()

    run(test)


def test_a_half_open_connection_is_closed_after_a_while() -> None:
    async def test() -> None:
        limits = ConnectionLimits(greeting=0.05)
        async with replier(limits=limits) as broker, peer(broker.endpoint) as whole:
            async with peer(broker.endpoint, REQUESTER[:4]) as half:
                await half.hear(8)
                assert await half.is_closed()
            assert broker.replier.trouble == {"no greeting": 1}
            whole.say(HELLO)
            await broker.take(1)

    run(test)


def test_a_flood_of_half_open_connections_does_not_keep_anybody_out() -> None:
    async def test() -> None:
        async with replier(limits=ConnectionLimits(ungreeted=5, greeting=60.0)) as broker:
            flood = [await asyncio.open_connection("127.0.0.1", _port(broker)) for _ in range(50)]
            async with peer(broker.endpoint) as good:
                good.say(HELLO)
                await broker.take(1)
            assert broker.replier.trouble["gave way before it greeted"] >= 44
            for _, writer in flood:
                writer.close()

    run(test)


def _port(broker: Replier) -> int:
    return int(broker.endpoint.rpartition(":")[2])


def test_connections_are_bounded() -> None:
    async def test() -> None:
        async with replier(limits=ConnectionLimits(connections=1)) as broker:
            async with peer(broker.endpoint) as first:
                first.say(HELLO)
                await broker.take(1)
                async with peer(broker.endpoint) as second:
                    assert await second.is_closed()
                assert broker.replier.trouble == {"too many connections": 1}
            await broker.take(1)
            async with peer(broker.endpoint) as third:
                third.say(HELLO)
                await broker.take(1)

    run(test)


def test_the_beginning_of_a_message_that_is_too_large_is_kept_and_the_connection_stays() -> None:
    async def test() -> None:
        async with replier(limits=ConnectionLimits(message=100_000)) as broker:
            async with peer(broker.endpoint) as client:
                client.say(frame(1, b"x" * 99_996) + frame(2, b"x" * 3_000_000))
                client.say(frame(3, b"after"))
                (_, largest), (_, oversized), (_, after) = await broker.take(3)
                assert len(largest[0]) == 99_996
                assert isinstance(oversized[0], OversizedFrame)
                assert (oversized[0].size, oversized[0]) == (3_000_004, b"x" * 4092)
                assert after == [b"after"]
                assert broker.replier.trouble == {"too large": 1}
                client.say((2**63).to_bytes(8) + b"\x80" * 1_000_000)
            (_, endless), (_, end) = await broker.take(2)
            assert (len(endless[0]), end) == (4092, [])
            assert broker.replier.trouble == {"too large": 2}

    run(test)


def test_nothing_more_is_read_while_too_much_waits_and_nothing_is_lost() -> None:
    async def test() -> None:
        body, many = b"x" * 1000, 20_000
        limits = ConnectionLimits(undrained=100)
        async with replier(limits=limits) as broker, peer(broker.endpoint) as client:
            client.say(b"".join(frame(n, body) for n in range(many)))
            seen: list[bytes] = []
            while len(seen) < many:
                await broker.woken.wait()
                broker.woken.clear()
                waited = broker.replier.drain(many)
                # One read from the socket may bring a quarter of a megabyte beyond the bound.
                assert len(waited) <= 100 + 300
                seen += [address[8:] for address, _ in waited]
            assert seen == [frame(n)[8:12] for n in range(many)]

    run(test)


def test_a_peer_that_does_not_read_is_not_read_from_and_loses_nothing() -> None:
    async def test() -> None:
        body, many = b"x" * 2000, 5000
        limits = ConnectionLimits(unsent=100_000)
        async with replier(limits=limits) as broker, peer(broker.endpoint) as slow:
            slow.say(b"".join(frame(n) for n in range(many)))
            addresses = [a for a, _ in await broker.take(many)]
            assert {broker.answer(a, body) for a in addresses} == {Sent.YES}
            (connection,) = broker.replier._connections.values()
            assert not connection.transport.is_reading()
            slow.say(frame(many))
            await slow.writer.drain()
            wanted = REPLIER + b"".join(frame(n, body) for n in range(many))
            assert await slow.hear(len(wanted)) == wanted
            assert len(await broker.take(1)) == 1

    run(test)


def test_answers_that_a_peer_never_reads_are_refused_in_the_end() -> None:
    async def test() -> None:
        limits = ConnectionLimits(unsent_limit=1_000_000)
        async with replier(limits=limits) as broker, peer(broker.endpoint) as stuck:
            stuck.say(frame(1))
            ((address, _),) = await broker.take(1)
            outcomes = [broker.answer(address, b"x" * 100_000) for _ in range(500)]
            assert outcomes[-1] is Sent.FULL
            assert outcomes[0] is Sent.YES
            async with peer(broker.endpoint) as good:
                good.say(HELLO)
                ((address, _),) = await broker.take(1)
                assert broker.answer(address, b"world") is Sent.YES

    run(test)


def test_answers_leave_together_with_a_flush() -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint) as client:
            client.say(frame(1) + frame(2))
            for address, _ in await broker.take(2):
                broker.replier.send(address, [b"y"])
            (connection,) = broker.replier._connections.values()
            assert connection.out
            broker.replier.flush()
            assert not connection.out
            both = REPLIER + frame(1, b"y") + frame(2, b"y")
            assert await client.hear(len(both)) == both

    run(test)


def test_answers_given_before_the_close_still_leave() -> None:
    async def test() -> None:
        body = b"x" * 3_000_000
        async with replier() as broker, peer(broker.endpoint) as client:
            client.say(frame(1))
            ((address, _),) = await broker.take(1)
            broker.replier.send(address, [body])
            closing = asyncio.create_task(broker.replier.close())
            assert len(await client.hear(20 + len(body))) == 20 + len(body)
            await closing

    run(test)


def test_a_peer_that_never_reads_does_not_hold_up_the_close() -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint) as stuck:
            stuck.say(frame(1))
            ((address, _),) = await broker.take(1)
            broker.replier.send(address, [b"x" * 20_000_000])
            async with asyncio.timeout(LIMIT):
                await broker.replier.close()

    run(test)
