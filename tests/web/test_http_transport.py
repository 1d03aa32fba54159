"""The HTTP transport opens, closes, and keeps nothing."""

import asyncio
import gc
import socket
import threading
import weakref

import pytest
from tests.web.caller import Caller, PlainWorker

from dragoman.dialects.http.settings import HttpSettings
from dragoman.testing.harness import LocalBroker
from dragoman.transports.base import is_loopback
from dragoman.web.app import host_name
from dragoman.web.http_transport import HttpTransport


def test_port_0_picks_a_free_one_and_closing_frees_it() -> None:
    async def scene() -> int:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(), lambda: "id")
        endpoint = await transport.open(lambda: None)
        assert endpoint.startswith("http://127.0.0.1:")
        port = int(endpoint.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b"200" in await reader.readline()
        writer.close()
        await transport.close()
        return port

    port = asyncio.run(scene())
    with socket.socket() as line, pytest.raises(ConnectionRefusedError):
        line.connect(("127.0.0.1", port))


@pytest.mark.parametrize("request_line", [b"GET /healthz HTTP/1.1", b"GET /nowhere HTTP/1.1", b"?"])
def test_a_connection_that_ended_is_let_go_of_at_once(request_line: bytes) -> None:
    async def scene() -> None:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(), lambda: "id")
        endpoint = await transport.open(lambda: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(endpoint.split(":")[2]))
        for _ in range(100):
            await asyncio.sleep(0)
        (line,) = map(weakref.ref, transport._connections)
        writer.write(request_line + b"\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        writer.close()
        # Not a matter of time: of the collector of cycles, which is off.
        for _ in range(100):
            await asyncio.sleep(0)
        assert line() is None
        await transport.close()

    gc.disable()
    try:
        asyncio.run(scene())
    finally:
        gc.enable()


def test_what_is_not_http_is_answered_and_counted_without_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(), lambda: "id")
        endpoint = await transport.open(lambda: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(endpoint.split(":")[2]))
        writer.write(b"\x00SP\x00\x00\x30\x00\x00\r\n\r\n")
        assert b"400" in await reader.readline()
        assert transport.trouble == {"not HTTP": 1}
        writer.close()
        await transport.close()

    asyncio.run(scene())
    assert caplog.records == []


@pytest.mark.parametrize(("size", "status"), [(60_000, b"200"), (66_000, b"400"), (70_000, b"400")])
def test_the_limit_of_a_head_holds_however_it_arrives(size: int, status: bytes) -> None:
    async def scene() -> None:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(), lambda: "id")
        endpoint = await transport.open(lambda: None)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(endpoint.split(":")[2]))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * size + b"\r\n\r\n")
        assert status in await reader.readline()
        writer.close()
        await transport.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /healthz HT", b"POST /v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Le"],
    ids=["silent", "half a line", "half a head"],
)
def test_a_thousand_slow_senders_do_not_keep_others_out(said: bytes) -> None:
    async def scene() -> list[bytes]:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(), lambda: "id")
        port = int((await transport.open(lambda: None)).split(":")[2])
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1050)]
        for _, writer in slow:
            writer.write(said)
        answers = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers.append(await reader.readline())
            writer.close()
        assert transport.trouble["gave way before its request was complete"] >= 50
        for _, writer in slow:
            writer.transport.abort()
        await transport.close()
        return answers

    assert asyncio.run(scene()) == [b"HTTP/1.1 200 OK\r\n"] * 3


@pytest.mark.interop
def test_slow_bodies_give_way_when_they_had_the_time_of_a_head() -> None:
    http = {"connections": 10, "header_timeout": 0.2, "body_timeout": 300.0}
    with LocalBroker("http", http=http, ledger={"seal": False}) as broker:
        port = int(broker.endpoints["http"].rpartition(":")[2])
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        head = b"POST /v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1"
        for each in slow:
            each.sendall(head)
        caller = Caller(broker.endpoints["http"])
        while caller.get("/healthz").status == 503:  # for 0.2 s; without a way out, 300 s
            pass
        for each in slow:
            each.close()


def test_one_connection_more_gets_503_if_no_other_can_give_way() -> None:
    async def scene() -> bytes:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(connections=2), lambda: "id")
        port = int((await transport.open(lambda: None)).split(":")[2])
        question = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in busy:
            writer.write(question)
            await reader.readline()
        # As if their requests had arrived and had no answer yet.
        next(iter(transport._connections)).unfinished.clear()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(question)
        answer = await reader.readline()
        for _, other in [*busy, (reader, writer)]:
            other.transport.abort()
        await transport.close()
        return answer

    assert asyncio.run(scene()) == b"HTTP/1.1 503 Service Unavailable\r\n"


def test_a_port_that_is_taken_is_said_so_by_name() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        transport = HttpTransport(f"http://127.0.0.1:{port}", HttpSettings(), lambda: "id")
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            asyncio.run(transport.open(lambda: None))


@pytest.mark.interop
def test_a_connection_whose_peer_reads_nothing_ends_with_the_transport() -> None:
    async def scene() -> None:
        transport = HttpTransport("http://127.0.0.1:0", HttpSettings(), lambda: "id")
        endpoint = await transport.open(lambda: None)
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(("127.0.0.1", int(endpoint.rpartition(":")[2])))
            peer.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
            for _ in range(1000):
                # Until the server has more to send than the peer takes.
                await asyncio.sleep(0)
            await transport.close()
            # The process may go on, as a standby of a cluster does.
            await asyncio.sleep(0)
            assert transport.connection_count == 0

    asyncio.run(scene())


def test_a_broker_that_goes_down_answers_who_waits() -> None:
    with LocalBroker("http", ledger={"seal": False}) as broker:
        caller = Caller(broker.endpoints["http"])
        worker = PlainWorker(caller, "s")
        found: dict[str, int] = {}

        def ask(name: str, path: str, body: object) -> None:
            found[name] = caller.post(path, body).status

        threads = [
            threading.Thread(target=ask, args=("call", "/v1/call", {"service": "nobody"})),
            threading.Thread(target=ask, args=("poll", f"{worker.path}/poll", {"wait": 50})),
        ]
        for thread in threads:
            thread.start()
        with caller.events("/v1/events?after=0") as events:
            for event in events:
                if event["event"] == "broker.submitted":
                    break
            broker.stop()
            assert all(event["event"] for event in events)
        for thread in threads:
            thread.join(20)
    assert found == {"call": 503, "poll": 404}


def test_hosts_are_told_apart() -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example")] == [
        *(True, True, True),
        *(False, False),
    ]
    assert host_name("[::1]:80") == "::1"
    assert host_name("LocalHost:80") == "localhost"
    assert host_name("") == ""
