"""The SP replier against requesters that speak in bytes."""

import os
import socket
from pathlib import Path

import pytest
from tests.transports.sp_peers import HELLO, WORLD, frame, peer, replier, run

from dragoman.transports.base import Sent
from dragoman.transports.sp_connection import REPLIER, REQUESTER


def test_the_captured_request_is_answered_with_the_captured_reply() -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint) as client:
            client.say(HELLO)
            ((address, frames),) = await broker.take(1)
            assert frames == [b"hello"]
            assert broker.answer(address, b"world") is Sent.YES
            assert await client.hear(8 + len(WORLD)) == REPLIER + WORLD

    run(test)


def test_the_whole_backtrace_is_repeated() -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint) as client:
            client.say(bytes.fromhex("000000000000000c000000058000000770696e67"))
            ((address, _),) = await broker.take(1)
            broker.answer(address, b"pong")
            reply = bytes.fromhex("000000000000000c0000000580000007706f6e67")
            assert await client.hear(8 + len(reply)) == REPLIER + reply

    run(test)


def test_ipc_puts_a_byte_before_the_length(tmp_path: Path) -> None:
    async def test() -> None:
        async with replier(f"ipc://{tmp_path}/s") as broker, peer(broker.endpoint) as client:
            client.say(bytes.fromhex("0100000000000000088000000770696e67"))
            ((address, frames),) = await broker.take(1)
            assert frames == [b"ping"]
            broker.answer(address, b"pong")
            reply = bytes.fromhex("01000000000000000880000007706f6e67")
            assert await client.hear(8 + len(reply)) == REPLIER + reply

    run(test)


def test_messages_may_come_in_pieces_and_together() -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint, b"") as client:
            for byte in REQUESTER + frame(1, b"one"):
                client.say(bytes([byte]))
                await client.writer.drain()
            client.say(frame(2, b"two") + frame(3, b"") + frame(4, b"four")[:9])
            client.say(frame(4, b"four")[9:])
            taken = await broker.take(4)
            assert [frames for _, frames in taken] == [[b"one"], [b"two"], [b""], [b"four"]]

    run(test)


def test_large_messages_pass_whole_in_both_directions() -> None:
    async def test() -> None:
        body = os.urandom(8 * 1024 * 1024)
        async with replier() as broker, peer(broker.endpoint) as client:
            client.say(frame(1, body) + frame(2, b"after"))
            (address, frames), after = await broker.take(2)
            assert frames == [body]
            assert after[1] == [b"after"]
            broker.answer(address, body)
            assert await client.hear(8 + 12 + len(body)) == REPLIER + frame(1, body)

    run(test)


# --- addresses and endings --------------------------------------------------------------------


def test_a_resent_request_has_the_same_address_and_another_connection_another() -> None:
    async def test() -> None:
        async with replier() as broker, peer(broker.endpoint) as one, peer(broker.endpoint) as two:
            one.say(HELLO + HELLO)
            (first, _), (again, _) = await broker.take(2)
            two.say(HELLO)
            ((other, _),) = await broker.take(1)
            assert first == again
            assert first != other
            assert first[8:] == other[8:] == bytes.fromhex("e05da11e")

    run(test)


def test_the_end_of_a_connection_is_drained_after_its_messages() -> None:
    async def test() -> None:
        async with replier() as broker:
            async with peer(broker.endpoint) as client:
                client.say(frame(1) + frame(2))
                await client.writer.drain()
            (first, _), _, end = await broker.take(3)
            assert end == (first[:8], [])
            assert broker.answer(first, b"late") is Sent.GONE

    run(test)


def test_a_connection_without_messages_ends_silently() -> None:
    async def test() -> None:
        async with replier() as broker:
            async with peer(broker.endpoint) as silent:
                await silent.hear(8)
            async with peer(broker.endpoint) as client:
                client.say(frame(1))
                ((_, frames),) = await broker.take(1)
                assert frames

    run(test)


def test_sending_to_an_unknown_address_answers_gone() -> None:
    async def test() -> None:
        async with replier() as broker:
            assert broker.answer(b"nobodys!" + b"\x80\0\0\1", b"x") is Sent.GONE

    run(test)


def test_a_replier_listens_on_several_endpoints_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        endpoints = f"tcp://127.0.0.1:0, tcp://[::1]:0, ipc://{tmp_path}/s"
        async with replier(endpoints) as broker:
            opened = broker.endpoint.split(",")
            assert [e.partition(":")[0] for e in opened] == ["tcp", "tcp", "ipc"]
            assert opened[1].startswith("tcp://[::1]:")
            for endpoint in opened:
                async with peer(endpoint) as client:
                    client.say(frame(1) if "tcp" in endpoint else b"\1" + frame(1))
                    await broker.take(1)
                await broker.take(1)

    run(test)


@pytest.mark.parametrize(
    "endpoint", ["tcp://127.0.0.1", "127.0.0.1:1", "ws://h:1", "ipc://", "tcp://h:99999"]
)
def test_an_endpoint_that_makes_no_sense_is_refused_with_a_reason(endpoint: str) -> None:
    async def test() -> None:
        with pytest.raises(ValueError, match=r"tcp://host:port|[Pp]ort"):
            async with replier(endpoint):
                pass

    run(test)


def test_a_socket_file_left_behind_is_taken_over_and_one_in_use_is_not(tmp_path: Path) -> None:
    async def test() -> None:
        path = tmp_path / "s"
        async with replier(f"ipc://{path}"):
            with pytest.raises(OSError, match="in use"):
                async with replier(f"ipc://{path}"):
                    pass
        assert not path.exists()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        async with replier(f"ipc://{path}") as broker, peer(broker.endpoint) as client:
            assert await client.hear(8) == REPLIER

    run(test)
