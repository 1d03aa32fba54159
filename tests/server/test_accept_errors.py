"""Out of file descriptors: one line a second, and others are served."""

import asyncio
import errno
import resource
import socket
from typing import Any

import pytest
import structlog.testing

from dragoman.server.accept_errors import AcceptErrors


def test_failed_accepts_are_one_line_a_second() -> None:
    now, loop = [0.0], asyncio.new_event_loop()
    errors = AcceptErrors(lambda: now[0])
    error = OSError(errno.EMFILE, "Too many open files")
    context = {"message": "socket.accept() out of system resource", "exception": error}
    with structlog.testing.capture_logs() as logs:
        for step in range(3000):
            now[0] = step / 1000
            errors.handle(loop, context)
    loop.close()
    assert [line["failed"] for line in logs] == [1, 1000, 1000]
    assert "LimitNOFILE" in logs[0]["hint"]


def test_other_exceptions_are_reported_as_before(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    AcceptErrors().handle(loop, {"message": "something else"})
    loop.close()
    assert "something else" in caplog.text


def test_a_listener_without_descriptors_goes_on_when_there_are_some() -> None:
    """A real server, a real limit: the connection waits, and is accepted afterwards."""

    async def scenario() -> tuple[list[Any], bytes]:
        errors = AcceptErrors()
        errors.attach(asyncio.get_running_loop())
        failed = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=8)
        client = socket.socket()
        client.setblocking(False)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with structlog.testing.capture_logs() as logs:
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            try:
                handle = errors.handle

                def handled(loop: Any, context: Any) -> None:
                    handle(loop, context)
                    failed.set()

                asyncio.get_running_loop().set_exception_handler(handled)
                await asyncio.get_running_loop().sock_connect(
                    client, server.sockets[0].getsockname()
                )
                await failed.wait()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            received = await asyncio.get_running_loop().sock_recv(client, 5)
        client.close()
        server.close()
        await server.wait_closed()
        return logs, received

    logs, received = asyncio.run(scenario())
    assert received == b"hello"
    assert len(logs) == 1
