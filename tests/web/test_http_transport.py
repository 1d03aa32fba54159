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


def test_a_port_that_is_taken_is_said_so_by_name() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        transport = HttpTransport(f"http://127.0.0.1:{port}", HttpSettings(), lambda: "id")
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            asyncio.run(transport.open(lambda: None))


@pytest.mark.interop
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
