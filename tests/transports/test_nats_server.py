"""The supervised nats-server: real processes on the loopback."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dragoman.transports.nats_cluster import NatsCluster
from dragoman.transports.nats_server import NatsServer, NatsServerError, find_binary

pytestmark = pytest.mark.interop


def greeting(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        return connection.recv(5)


def test_it_starts_on_a_free_port_and_stops(tmp_path: Path) -> None:
    async def story() -> None:
        server = NatsServer(tmp_path / "nats")
        url = await server.start()
        assert url == f"nats://127.0.0.1:{server.port}"
        assert greeting(server.port) == b"INFO "
        pid = server.pid
        assert pid is not None
        await server.stop()
        assert not psutil.pid_exists(pid)

    asyncio.run(story())


def test_it_is_started_again_on_its_port_when_it_dies(tmp_path: Path) -> None:
    async def story() -> None:
        server = NatsServer(tmp_path)
        await server.start()
        port, first = server.port, server.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(20):
            await server.restarted.wait()
        assert server.restarts == 1
        assert greeting(port) == b"INFO "
        await server.stop()

    asyncio.run(story())


def test_it_comes_back_on_the_port_it_had(tmp_path: Path) -> None:
    async def story() -> None:
        first = NatsServer(tmp_path)
        await first.start()
        await first.stop()
        second = NatsServer(tmp_path)
        await second.start()
        await second.stop()
        assert second.port == first.port

    asyncio.run(story())


def test_a_remembered_port_that_is_taken_is_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = other.getsockname()[1]
            (tmp_path / "port").write_text(f"{taken}\n")
            server = NatsServer(tmp_path)
            await server.start()
            assert server.port != taken
            await server.stop()

    asyncio.run(story())


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            server = NatsServer(tmp_path, port=other.getsockname()[1])
            with pytest.raises(NatsServerError, match="taken"):
                await server.start()

    asyncio.run(story())


def test_a_binary_that_is_no_server_is_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(NatsServerError, match="did not start"):
            await NatsServer(tmp_path, binary="/bin/true").start()

    asyncio.run(story())


def test_it_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import asyncio, pathlib, sys\n"
        "from dragoman.transports.nats_server import NatsServer\n"
        "async def main():\n"
        "    server = NatsServer(pathlib.Path(sys.argv[1]))\n"
        "    await server.start()\n"
        "    print(server.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    child.wait(timeout=10)
    assert not child.is_running()


def test_the_binary_comes_with_the_wheel() -> None:
    assert Path(find_binary()).name == "nats-server"


def test_its_last_complaint_is_known(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    assert server.last_complaint == ""
    server.log_lines += [
        "[7] 2026/01/05 12:00:00 [ERR] 10.0.0.2:6222 - rid:9 - authentication error",
        "[7] 2026/01/05 12:00:01 [INF] Server is ready",
    ]
    assert server.last_complaint == "10.0.0.2:6222 - rid:9 - authentication error"


def test_a_server_that_finds_its_cluster_port_in_use_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            member = NatsCluster("c", "a", place, ("127.0.0.1:1",), "0123456789abcdef")
            server = NatsServer(tmp_path, cluster=member)
            await server.start()
            async with asyncio.timeout(20):
                await server.restarted.wait()
            await server.stop()

    asyncio.run(story())
    assert "Error listening on router port" in caplog.text
    assert "address already in use); it starts again" in caplog.text
